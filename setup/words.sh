#!/usr/bin/env bash
# Installs man pages, and completions for shells:
#
#   setup/words.sh DIR HEARTH       DIR is `share` below a prefix, HEARTH the command that prints completions
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
share=$1
hearth=$2

install -d "$share/man/man1"
install -m 644 "$root"/man/*.1 "$share/man/man1"

# completion SHELL FILE: a script at the place where that shell looks.
completion() {
    install -d "$(dirname "$share/$2")"
    "$hearth" completions "$1" >"$share/$2"
    chmod 644 "$share/$2"
}
completion bash bash-completion/completions/hearth
completion zsh zsh/site-functions/_hearth
completion fish fish/vendor_completions.d/hearth.fish
