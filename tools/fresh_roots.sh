#!/usr/bin/env bash
# Tries both set-up commands of the README, tools/quickstart.sh and tools/test.sh, in empty systems that have nothing
# but what debootstrap installs: Debian 12 and 13. Needs root, debootstrap, 15 GiB of disk and an hour or more.
#   tools/fresh_roots.sh [RELEASE ...]      for example: tools/fresh_roots.sh trixie
#   ONLY=tools/test.sh tools/fresh_roots.sh [RELEASE ...]
# Tries what is committed. Logs lie in build-roots/, where the last lines of each command are what it ends with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
((EUID == 0)) || { echo "needs root: sudo $0 $*" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "apt-get install debootstrap" >&2; exit 2; }
(($#)) || set -- bookworm trixie

logs=$PWD/build-roots
mirror=$(apt-get indextargets --format '$(REPO_URI)' | sort -u | grep -v security | head -n 1)
mkdir -p "$logs"

close_root() {
  for mounted in sys dev proc; do umount --quiet --lazy --recursive "$root/$mounted" || true; done
  rm -rf --one-file-system "$root"
}

status=0
for release; do
  root=$(mktemp -d)
  chmod 755 "$root"  # mktemp makes it 700, but some tests run tools as another user
  trap close_root EXIT
  debootstrap --variant=minbase "$release" "$root" "$mirror" >"$logs/$release-root.log"
  mount -t proc none "$root/proc"
  mount --rbind --make-rslave /sys "$root/sys"
  mount --rbind --make-rslave /dev "$root/dev"  # with its pseudo-terminals
  cp /etc/resolv.conf "$root/etc/"
  mkdir "$root/l2l"
  git archive HEAD | tar --extract --directory "$root/l2l"
  for command in ${ONLY:-tools/quickstart.sh tools/test.sh}; do
    log=$logs/$release-$(basename "$command" .sh).log
    if chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "/l2l/$command" >"$log" 2>&1; then
      echo "$release, $command: done: $(tail -n 1 "$log")"
    else
      echo "$release, $command: failed: $log"
      status=1
    fi
  done
  close_root
  trap - EXIT
done
exit "$status"
