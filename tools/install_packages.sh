# shellcheck disable=SC2034
# Sourced by quickstart.sh and test.sh, in bash: Debian packages (12 and later, Ubuntu 24.04 and later) and stage times.

# build_packages: to build and run; test_packages: also to test.
build_packages=(g++ meson ninja-build pkg-config python3 libtbb-dev libhwloc-dev libdnnl-dev libjemalloc-dev libcli11-dev
  libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev libpcre2-dev libicu-dev libsentencepiece-dev
  zlib1g-dev libzstd-dev libpng-dev)
test_packages=(libgtest-dev libboost-context-dev cmake doxygen libopenmpi-dev openmpi-bin)

missing_packages() {
  local package
  for package; do
    [[ $(dpkg-query --show --showformat='${Status};' "$package" 2>/dev/null) == 'install ok installed;'* ]] || echo "$package"
  done
}

# Installs those of the named packages that are missing; with none missing it needs neither root nor a network.
install_packages() {
  command -v dpkg-query >/dev/null || { echo "no dpkg here: install the counterparts of: $*" >&2; return 0; }
  local missing root=()
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "as root, run: apt-get install ${missing[*]}" >&2; return 1; }
    root=(sudo)
  fi
  echo "installing ${missing[*]}" >&2
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --yes --quiet)
  # Without package lists, or with old ones, the first attempt fails: then they are fetched.
  quietly "${apt[@]}" install --no-install-recommends "${missing[@]}" 2>/dev/null && return 0
  quietly "${apt[@]}" update || return 1
  quietly "${apt[@]}" install --no-install-recommends "${missing[@]}"
}

# Runs a command whose output matters only when it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || { status=$?; cat "$log" >&2; }
  rm -f "$log"
  return "$status"
}

# stage NAME COMMAND...: runs it, says how long it took, and fails as it does.
stage() {
  local name=$1 start=$SECONDS status
  shift
  "$@"
  status=$?
  echo "[$name: $((SECONDS - start)) s]" >&2
  return "$status"
}

# configure FOLDER OPTION...: sets a build folder up, or brings its options up to date.
configure() {
  local folder=$1
  shift
  if [[ -f $folder/build.ninja ]]; then
    quietly meson setup --reconfigure "$@" "$folder"
  else
    rm -rf "$folder"
    quietly meson setup "$@" "$folder"
  fi
}
