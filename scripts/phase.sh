# Sourced by the commands that have several phases.

# phase NAME COMMAND...: runs the command, and says what it is and how long it took.
phase() {
    local name=$1 start=$SECONDS
    shift
    echo "== $name"
    "$@"
    echo "== $name: $((SECONDS - start)) s"
}
