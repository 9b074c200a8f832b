#!/usr/bin/env bash
# Checks the formatting of every C++, CUDA and Python file that git tracks; with --fix, repairs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fix=false
case "${1-}" in
  "") ;;
  --fix) fix=true ;;
  *) echo "usage: common/tools/check_format.sh [--fix]" >&2; exit 2 ;;
esac

# The pinned versions: another clang-format would format differently.
bin=$PWD/.venv/bin
if [[ ! -x $bin/clang-format || ! -x $bin/ruff ]]; then
  echo "check_format: the tools are missing; run ./setup.sh first" >&2
  exit 2
fi

git rev-parse --is-inside-work-tree >/dev/null
# Lists the tracked files that match and are in the working tree, each ended by a NUL.
tracked() {
  local file
  git ls-files -z -- "$@" | while IFS= read -r -d '' file; do
    if [[ -f $file ]]; then printf '%s\0' "$file"; fi
  done
}
mapfile -d '' -t cxx < <(tracked '*.cpp' '*.hpp' '*.cu' '*.cuh')
mapfile -d '' -t python < <(tracked '*.py')

bad=false
if ((${#cxx[@]})); then
  if $fix; then
    "$bin/clang-format" -i "${cxx[@]}"
  else
    "$bin/clang-format" --dry-run -Werror "${cxx[@]}" || bad=true
  fi
fi
if ((${#python[@]})); then
  if $fix; then
    "$bin/ruff" check --quiet --fix "${python[@]}" || bad=true
    "$bin/ruff" format --quiet "${python[@]}"
  else
    "$bin/ruff" check --quiet "${python[@]}" || bad=true
    "$bin/ruff" format --quiet --diff "${python[@]}" || bad=true
  fi
fi

if $bad; then
  if $fix; then
    echo "check_format: the lint findings above need a hand" >&2
  else
    echo "check_format: to repair, run: common/tools/check_format.sh --fix" >&2
  fi
  exit 1
fi
echo "check_format: ${#cxx[@]} C++/CUDA and ${#python[@]} Python files are well formatted"
