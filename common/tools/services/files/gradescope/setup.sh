#!/usr/bin/env bash
# Gradescope runs this once, as root, when the autograder's image is built.
set -euo pipefail
cd /autograder/source/grader
./setup.sh -Dcuda=disabled
.venv/bin/meson compile -C build judge worker
