#!/usr/bin/env bash
# Builds container/Containerfile where no image registry is in reach, and runs what the image is for:
#
#   container/without_registry.sh [FOLDER]     as root, on Debian 12; needs mmdebstrap and buildah
#
# The image that the recipe begins with is made of Debian's packages, by this machine's own package sources.
# FOLDER, by default a temporary one, holds the images and is removed. Takes 5 GB and some ten minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'container: %s\n' "$*"; }
for program in mmdebstrap buildah; do
  if ! command -v $program >/dev/null; then
    say "$program is missing; run: apt-get install mmdebstrap buildah" >&2
    exit 2
  fi
done
if ((EUID)); then
  say "needs root" >&2
  exit 2
fi

if (($#)); then mkdir "$1" && folder=$(realpath "$1"); else folder=$(mktemp -d); fi
trap 'rm -rf "$folder"' EXIT
image() { buildah --storage-driver vfs --root "$folder/images" --runroot "$folder/run" "$@"; }
export BUILDAH_ISOLATION=chroot

# What a machine's administrator has added to the certificates holds within, too.
shared=()
certificates=/usr/local/share/ca-certificates
if compgen -G "$certificates/*.crt" >/dev/null; then shared=(--volume "$certificates:$certificates:ro"); fi

from=$(sed -n 's/^FROM //p' container/Containerfile)
sources=/etc/apt/sources.list.d/debian.sources
if [[ ! -e $sources ]]; then sources=/etc/apt/sources.list; fi
say "$from, of the packages that $sources names"
mmdebstrap --quiet --variant=minbase bookworm "$folder/base.tar" "$sources"
base=$(image from scratch)
image add --quiet "$base" "$folder/base.tar" /
image commit --quiet --rm "$base" "docker.io/library/$from"
rm "$folder/base.tar"

say "docker build -f container/Containerfile"
image bud --pull-never "${shared[@]}" -f container/Containerfile -t gemm-ladder .
container=$(image from --pull-never localhost/gemm-ladder)
# expect WORDS COMMAND... runs a command in the container; what it prints must hold the words.
expect() {
  local words=$1 said
  shift
  say "run ${*: -1}"
  said=$(image run "$container" -- "$@" 2>&1) || { printf '%s\n' "$said"; exit 1; }
  if [[ $said != *"$words"* ]]; then
    printf '%s\n' "$said"
    say "'$words' is not there" >&2
    exit 1
  fi
}
command=$(image inspect --type image --format '{{join .OCIv1.Config.Cmd " "}}' localhost/gemm-ladder)
expect "exercises passed" sh -c "$command"
expect "PASS" sh -c "$(.venv/bin/python -c 'import json
print(json.load(open(".devcontainer/devcontainer.json"))["postCreateCommand"])')"
say "the image is good"
