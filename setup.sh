#!/usr/bin/env bash
# Installs what the build needs and configures build/. See ./setup.sh --help.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: ./setup.sh [--arm64] [--browser] [--no-root] [MESON_OPTION...]

Makes a fresh clone ready to build. It can be run again at any time and asks nothing:
what is in place already is left alone.

  1. Debian 12+, Ubuntu 22.04+: installs the missing packages with apt-get (as root or through sudo).
     Other systems: names the packages and goes on.
  2. Makes .venv with the Python tools that requirements.txt pins (Meson and Ninja among them).
  3. Looks for nvcc 12.4 or newer: on PATH, then in $CUDA_HOME/bin, $CUDA_PATH/bin, /usr/local/cuda/bin.
     Without one, the build holds the CPU device only.
  4. Configures build/ with Meson.

  --arm64     also configures build-arm64/, which a cross compiler builds for 64-bit ARM (CPU device only) and whose
              tests run in an emulator: installs g++-aarch64-linux-gnu and qemu-user, and unpacks the libraries for
              arm64 into .packages/arm64 (about 450 MB in all). For Debian on another processor than that.

  --browser   also installs Chromium, in which the site's pages are tested (Debian's chromium and chromium-driver,
              with what they need about 750 MB). Nothing else needs it; without it, those tests are skipped.

  --no-root   installs nothing outside of this folder: of the missing packages, libraries are downloaded with apt-get
              and unpacked into .packages. A compiler (g++), git, binutils, pkg-config and Python 3.11 or newer have
              to be there. It does so by itself where you are not root and sudo is not there or asks for a password.

Every other argument goes to "meson setup":

  ./setup.sh -Dcuda=disabled      no CUDA, even where nvcc is found
  ./setup.sh -Dgpu_arch=86        the GPU architectures to compile for (default: the GPU present, else 80,90a;
                                  where another GPU is found than the last time, build/ is configured for that)
  ./setup.sh -Dbuildtype=debug    any other option of Meson's
HELP
}

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

if [[ $(uname -s) != Linux ]]; then
  # Before anything that macOS's bash 3.2 does not know.
  die "needs Linux: the CPU device reads ELF files, and GCC has to report accesses; a container has that, see docs/start.md"
fi

cuda_chosen=false # whether the command line says what cuda is to be
arm64=false
browser=false
no_root=false
meson_options=()
for arg in "$@"; do
  case $arg in
    -h | --help) usage && exit 0 ;;
    --arm64) arm64=true && continue ;;
    --browser) browser=true && continue ;;
    --no-root) no_root=true && continue ;;
    -Dcuda=* | cuda=*) cuda_chosen=true ;;
  esac
  meson_options+=("$arg")
done
set -- "${meson_options[@]}"

trap 'die "stopped by an error at line $LINENO"' ERR

start_dir=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
cd "$root"

# ---- what is there already ----

# .venv is good if it was made here, from this requirements.txt, and its programs run.
venv_stamp=.venv/setup-stamp # this folder, then requirements.txt
venv_runs() {
  [[ -f $venv_stamp && $(head -n 1 $venv_stamp) == "$root" ]] &&
    .venv/bin/meson --version >/dev/null 2>&1 && .venv/bin/ninja --version >/dev/null 2>&1
}
venv_is_good() { venv_runs && tail -n +2 $venv_stamp | cmp -s - requirements.txt; }

# Whether a Python can make the .venv: with its ensurepip, which a system may keep in another package, or with a pip
# that can install for another Python.
python_fits='
import sys, venv
assert sys.version_info >= (3, 11)
try:
    import ensurepip
except ImportError:
    import pip
    assert tuple(map(int, pip.__version__.split(".")[:2])) >= (22, 3)
'

# Prints the first Python that can make the .venv.
find_python() {
  local name path
  for name in python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do
    path=$(command -v "$name") || continue
    if [[ $path == "$root"/.venv/* ]]; then continue; fi
    if "$path" -c "$python_fits" 2>/dev/null; then
      printf '%s\n' "$path"
      return
    fi
  done
  return 1
}

# ---- packages ----

libraries=(libboost-context-dev libcli11-dev libfmt-dev libgmock-dev libgtest-dev nlohmann-json3-dev)
packages=(binutils ca-certificates g++ git "${libraries[@]}")
if ! $no_root; then packages+=(bubblewrap); fi # which confines students' programs; the grader does without it, too
if ! command -v pkg-config >/dev/null; then packages+=(pkg-config); fi
if ! venv_is_good && ! find_python >/dev/null; then
  # Ubuntu 22.04's python3 is 3.10; it has 3.11 beside it.
  if grep -qs '^UBUNTU_CODENAME=jammy' /etc/os-release; then
    packages+=(python3.11 python3.11-venv)
  else
    packages+=(python3 python3-venv)
  fi
fi

if $browser && ! { command -v chromium && command -v chromedriver; } >/dev/null; then
  # Ubuntu's chromium is a snap, which does not run everywhere and is no package of apt's.
  if grep -qs '^ID=ubuntu' /etc/os-release; then
    say "browser: Ubuntu has no Chromium for apt; install Google Chrome and its chromedriver to test the site"
  else
    packages+=(chromium chromium-driver)
  fi
fi

if $arm64; then
  if [[ $(uname -m) == aarch64 ]]; then
    say "arm64: this machine is one, and build/ is for it"
    arm64=false
  elif ! grep -qs '^ID=debian' /etc/os-release; then
    die "--arm64 needs Debian: Ubuntu keeps its libraries for arm64 on other servers, elsewhere they have other names"
  else
    packages+=(g++-aarch64-linux-gnu qemu-user)
  fi
fi

# Installs its arguments; takes apt's settings from the environment, so that nothing can ask a question.
apt_install() {
  local as_root=()
  if ((EUID)); then as_root=(sudo -n); fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
  "${apt[@]}" update </dev/null || say "apt-get update failed; trying with the package lists at hand"
  "${apt[@]}" install -y --no-install-recommends "$@" </dev/null
}

# unpack FOLDER PACKAGE... unpacks packages, and what they need, into the folder, as the user that runs this. apt's
# lists and files lie there, too: those of the system may be missing or belong to root. $unpack_options go to apt;
# with $unpack_only, nothing is unpacked but packages whose names match it.
unpacked=$root/.packages
unpack_options=()
unpack_only=
unpack() {
  local folder=$1 names file
  shift
  local apt=(apt-get -q -o Dpkg::Use-Pty=0 -o Debug::NoLocking=1 -o "Dir::State::Lists=$folder/apt/lists"
    -o "Dir::Cache=$folder/apt/cache" "${unpack_options[@]}")
  mkdir -p "$folder"/{apt/lists/partial,apt/cache/archives/partial,debs,complete}
  "${apt[@]}" update </dev/null || say "apt-get update failed; trying with the package lists at hand"
  # What is installed already, if in another version, stays as it is: its line has the old version in brackets.
  names=$("${apt[@]}" --simulate install --no-install-recommends "$@" |
    sed -n 's/^Inst \([^ ]*\) (.*/\1/p' | { grep -E "$unpack_only" || true; })
  # shellcheck disable=SC2086  # names without blanks
  (cd "$folder/debs" && "${apt[@]}" download $names </dev/null) || return
  for file in "$folder"/debs/*.deb; do
    dpkg-deb --extract "$file" "$folder" || return
  done
  # Where the libraries say that they are.
  find "$folder/usr" -name '*.pc' -exec sed -i "s|\([=I]\)/usr|\1$folder/usr|g" {} +
  rm -rf "$folder/debs" "$folder/apt"
  (cd "$folder/complete" && touch "$@")
}

if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  missing=()
  for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) || state=
    if [[ $state != ii* && ! -e $unpacked/complete/$package ]]; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then
    say "packages: all installed"
  elif ! $no_root && { ((EUID == 0)) || sudo -n true 2>/dev/null; }; then
    say "packages: installing with apt-get: ${missing[*]}"
    apt_install "${missing[@]}" || die "apt-get could not install: ${missing[*]}"
  else
    # As with --no-root, where neither root nor sudo without a password is to be had.
    unpackable=() others=()
    for package in "${missing[@]}"; do
      case " ${libraries[*]} bubblewrap " in
        *" $package "*) if [[ $package != bubblewrap ]]; then unpackable+=("$package"); fi ;;
        *) others+=("$package") ;;
      esac
    done
    if ((${#others[@]})); then
      die "missing, and only libraries can be unpacked without root; run: sudo apt-get install ${others[*]}"
    fi
    if ((${#unpackable[@]})); then
      say "packages: no root, unpacking into .packages: ${unpackable[*]}"
      unpack "$unpacked" "${unpackable[@]}" || die "apt-get could not download: ${unpackable[*]}"
    fi
  fi
else
  say "packages: no apt-get here; needed, by their Debian names: ${packages[*]}"
fi

# The libraries for arm64, as a user would unpack them: "dpkg --add-architecture" would change the whole system. The
# C library and GCC's are not among them, as the cross compiler has its own.
sysroot=$unpacked/arm64
if $arm64; then
  missing=()
  for package in "${libraries[@]}"; do
    if [[ ! -e $sysroot/complete/$package ]]; then missing+=("$package"); fi
  done
  if ((${#missing[@]})); then
    say "arm64: unpacking into .packages/arm64: ${missing[*]}"
    unpack_options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status=/dev/null)
    unpack_only='^(googletest|lib(boost|cli11|fmt|gmock|gtest)|nlohmann)'
    unpack "$sysroot" "${missing[@]}" || die "apt-get could not download for arm64: ${missing[*]}"
  fi
fi

# ---- .venv ----

make_venv() {
  local python site_packages
  if venv_runs && .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say ".venv: requirements.txt has changed, installing it"
  else
    python=$(find_python) ||
      die "needs Python 3.11 or newer with its venv module; install one and put it on PATH"
    if [[ -e .venv ]]; then say ".venv: does not work here, making it again"; fi
    say ".venv: installing requirements.txt with $("$python" --version)"
    rm -rf .venv
    if "$python" -c 'import ensurepip' 2>/dev/null; then
      "$python" -m venv .venv || die ".venv: $python could not make it"
    else
      "$python" -m venv --without-pip .venv || die ".venv: $python could not make it"
      PIP_USER=0 "$python" -m pip --quiet --python .venv/bin/python --no-input install pip ||
        die ".venv: pip of $python could not install itself there"
    fi
  fi
  rm -f $venv_stamp
  PIP_USER=0 .venv/bin/python -m pip --quiet --disable-pip-version-check --no-input \
    install -r requirements.txt ||
    die ".venv: pip could not install requirements.txt (see above)"
  # Meson looks for Ninja on PATH only. This line, which the .venv's Python runs when it starts,
  # makes .venv/bin/meson use .venv/bin/ninja whether or not the .venv is activated.
  site_packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo 'import os, sys; os.environ.setdefault("NINJA", os.path.join(sys.prefix, "bin", "ninja"))' \
    >"$site_packages/ninja_of_this_venv.pth"
  { echo "$root" && cat requirements.txt; } >$venv_stamp
  venv_is_good || die ".venv: Meson or Ninja does not run; try .venv/bin/meson --version"
}

if venv_is_good; then say ".venv: up to date"; else make_venv; fi

# ---- nvcc ----

# Sets nvcc and nvcc_version to the first nvcc that can be used; if none can, nvcc to "" and nvcc_problem.
find_nvcc() {
  local output major minor
  nvcc_problem="no nvcc found"
  for nvcc in "$(command -v nvcc || true)" "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" \
    "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" /usr/local/cuda/bin/nvcc; do
    if [[ -z $nvcc || ! -x $nvcc ]]; then continue; fi
    output=$("$nvcc" --version 2>/dev/null) || output=
    if [[ ! $output =~ release\ ([0-9]+)\.([0-9]+) ]]; then
      nvcc_problem="$nvcc does not run"
      continue
    fi
    major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[2]}
    nvcc_version=$major.$minor
    if ((major < 12 || (major == 12 && minor < 4))); then
      nvcc_problem="$nvcc is version $nvcc_version, 12.4 or newer is needed"
    elif ! "$nvcc" -E -x cu /dev/null >/dev/null 2>&1; then
      nvcc_problem="$nvcc ($nvcc_version) does not work with this g++; to see why: $nvcc -E -x cu /dev/null"
    else
      return 0
    fi
  done
  nvcc=
}

find_nvcc
if [[ -n $nvcc ]]; then
  cuda_root=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  if [[ $cuda_root != /usr && -d $cuda_root/include ]]; then export CUDA_PATH=$cuda_root; fi
  cuda=enabled decision="nvcc $nvcc_version, $nvcc" because=
else
  cuda=disabled decision="CPU device only" because=" ($nvcc_problem)"
fi

# Meson's machine file: full paths, so that a later shell with another PATH builds all the same. (Meson
# takes nvcc from here or from PATH, not from a variable.)
{
  echo "[binaries]"
  echo "python3 = '$root/.venv/bin/python'"
  if [[ -n $nvcc ]]; then printf "cuda = '%s'\nnvcc = '%s'\n" "$nvcc" "$nvcc"; fi
  if [[ -d $unpacked/complete ]]; then
    libs=$unpacked/usr/lib/$(g++ -print-multiarch)
    printf "[built-in options]\npkg_config_path = ['%s/pkgconfig', '%s/usr/share/pkgconfig']\n" "$libs" "$unpacked"
    printf "[properties]\nboost_includedir = '%s/usr/include'\nboost_librarydir = '%s'\n" "$unpacked" "$libs"
  fi
} >.venv/native.ini

# ---- build/ ----

meson=.venv/bin/meson
stamp=build/setup-cuda # the last run's decision on CUDA; absent if build/ was configured by hand
last_decision=
if [[ -f $stamp ]]; then last_decision=$(<"$stamp"); fi
cuda_option=("-Dcuda=$cuda")
if $cuda_chosen || [[ $last_decision == "chosen by option" ]]; then
  cuda_option=() decision="chosen by option" because=
fi
say "CUDA: $decision$because"

# build_problem FOLDER prints why a build folder cannot be used as it is; nothing if it can.
build_problem() {
  .venv/bin/python - "$root" "$1" "$($meson --version)" <<'PYTHON'
import json
import os
import sys

root, folder, version = sys.argv[1:]
try:
    with open(f"{folder}/meson-info/meson-info.json", encoding="utf-8") as file:
        info = json.load(file)
    source, build = info["directories"]["source"], info["directories"]["build"]
    by = info["meson_version"]["full"]
    if (source, build) != (root, os.path.join(root, folder)):
        print(f"it was configured for {source}")
    elif by != version:
        print(f"it was configured by Meson {by}, this is {version}")
    elif not os.path.exists(f"{folder}/build.ninja"):
        print("it is incomplete")
except (OSError, ValueError, KeyError, TypeError):
    print("it is incomplete")
PYTHON
}

# The compute capability of the first GPU, as "7.5", and what it was when build/ was configured; "" without a GPU.
gpu_stamp=build/setup-gpu
gpu=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || gpu=
last_gpu=$gpu
if [[ -f $gpu_stamp ]]; then last_gpu=$(<"$gpu_stamp"); fi

native=(--native-file .venv/native.ini)
if [[ ! -f build/meson-private/coredata.dat ]]; then
  say "build/: configuring"
  $meson setup build "${native[@]}" "${cuda_option[@]}" "$@"
else
  problem=$(build_problem build)
  if [[ -n $problem ]]; then
    :
  elif ! $meson configure --no-pager build >/dev/null 2>&1; then
    problem="it is damaged"
  elif [[ -n $last_decision && $decision != "$last_decision" && $decision != "chosen by option" ]]; then
    problem="CUDA was: $last_decision"
  fi
  if [[ -n $problem ]]; then
    say "build/: $problem; wiping and configuring it again, with the options it had"
    $meson setup --wipe build "${native[@]}" "${cuda_option[@]}" "$@"
  elif [[ -n $gpu && $gpu != "$last_gpu" && $cuda == enabled ]]; then
    say "build/: configuring again, for a GPU of compute capability $gpu"
    $meson setup --reconfigure build "$@"
  elif (($#)); then
    say "build/: configuring again with $*"
    $meson setup --reconfigure build "$@"
  else
    say "build/: configured already"
    decision=$last_decision
  fi
fi
if [[ -n $gpu || ! -f $gpu_stamp ]]; then printf '%s\n' "$gpu" >"$gpu_stamp"; fi
if [[ -n $decision ]]; then printf '%s\n' "$decision" >"$stamp"; fi

# ---- build-arm64/ ----

if $arm64; then
  {
    printf "[properties]\npkg_config_libdir = ['%s/pkgconfig', '%s']\n" \
      "$sysroot/usr/lib/aarch64-linux-gnu" "$sysroot/usr/share/pkgconfig"
    printf "boost_includedir = '%s'\nboost_librarydir = '%s'\n" \
      "$sysroot/usr/include" "$sysroot/usr/lib/aarch64-linux-gnu"
  } >.venv/arm64.ini
  again=()
  if [[ -d build-arm64 ]]; then
    problem=$(build_problem build-arm64)
    again=(--wipe)
  else
    problem="configuring"
  fi
  if [[ -n $problem ]]; then
    say "build-arm64/: $problem"
    $meson setup "${again[@]}" build-arm64 --native-file .venv/native.ini \
      --cross-file tests/arm64/cross.ini --cross-file .venv/arm64.ini -Dcuda=disabled
  else
    say "build-arm64/: configured already"
  fi
  say "arm64: to test it: .venv/bin/meson test -C build-arm64 --suite arm64"
fi

# ---- what to type next ----

next=".venv/bin/meson compile -C build && ./build/steps/05_2d_tiling/run"
if [[ $(cd "$start_dir" && pwd -P) != "$root" ]]; then next="cd $root && $next"; fi
say "done; next: $next"
