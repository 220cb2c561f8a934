# What the commands need from the machine. Sourced; names everything that is missing, with its remedy, at once.

# check_prerequisites COMMAND...: ends the script if one of the commands is missing.
check_prerequisites() {
    local command missing=()
    for command in "$@"; do
        command -v "$command" >/dev/null || missing+=("$command")
    done
    [ ${#missing[@]} -eq 0 ] && return
    for command in "${missing[@]}"; do
        echo "missing: $command. $(remedy "$command")" >&2
    done
    exit 1
}

remedy() {
    case $1 in
        cargo) echo "Install Rust 1.95 or newer, see https://rustup.rs" ;;
        cargo-clippy) echo "Run: rustup component add clippy" ;;
        cargo-fmt) echo "Run: rustup component add rustfmt" ;;
        cc) echo "Rust links with the C compiler. Run: sudo apt-get install build-essential" ;;
        *) echo "Run: sudo apt-get install $1" ;;
    esac
}
