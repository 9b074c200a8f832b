#!/usr/bin/env bash
# Checks the formatting of every C++, CUDA and Python file that git tracks, and the types in the tools; with --fix,
# repairs the formatting.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case "${1-}" in
  "") cxx_options=(--dry-run -Werror) check=() format=(--diff) ;;
  --fix) cxx_options=(-i) check=(--fix) format=() ;;
  *) echo "usage: common/tools/check_format.sh [--fix]" >&2; exit 2 ;;
esac
# The pinned versions: another clang-format would format differently.
bin=$PWD/.venv/bin
if [[ ! -x $bin/clang-format || ! -x $bin/ruff || ! -x $bin/mypy ]]; then
  echo "check_format: the tools are missing; run ./setup.sh first" >&2
  exit 2
fi

# Lists the tracked files that match and are in the working tree.
tracked() { comm -z -23 <(git ls-files -z -- "$@" | sort -z) <(git ls-files -z --deleted | sort -z); }
git rev-parse --is-inside-work-tree >/dev/null
mapfile -d '' -t cxx < <(tracked '*.cpp' '*.hpp' '*.cu' '*.cuh')
mapfile -d '' -t python < <(tracked '*.py')

bad=false
"$bin/clang-format" "${cxx_options[@]}" "${cxx[@]}" || bad=true
"$bin/ruff" check --quiet "${check[@]}" "${python[@]}" || bad=true
"$bin/ruff" format --quiet "${format[@]}" "${python[@]}" || bad=true
"$bin/mypy" --no-error-summary || bad=true
if $bad; then
  echo "check_format: to repair, run: common/tools/check_format.sh --fix; what that leaves needs a hand" >&2
  exit 1
fi
echo "check_format: ${#cxx[@]} C++/CUDA and ${#python[@]} Python files are well formatted"
