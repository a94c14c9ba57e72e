#!/bin/bash
# Builds the programs of a Kubernetes cluster into a cache outside of the repository, from Go modules. A program that is there is kept.
# usage: build.sh DIRECTORY
set -euo pipefail

KUBERNETES=1.36.3
CONTAINERD=2.4.2
RUNC=1.5.2
CNI=1.9.1
HELM=3.22.0
# Releases whose types the objects of the chart and of the fronts are checked against.
CHECKED="0.33.13 0.34.13 0.35.10 0.36.6"

target=$(realpath -m "$1")
mkdir -p "$target/bin" "$target/modules"
export GOFLAGS="-mod=mod -trimpath -buildvcs=false" GOTOOLCHAIN=auto

# module NAME [LINE...]: a module of our own, with the given lines in its go.mod.
module() {
  local directory=$target/modules/$1
  shift
  mkdir -p "$directory"
  printf '%s\n' "module build" "go 1.26" "$@" > "$directory/go.mod"
  cd "$directory"
}

# build PROGRAM PACKAGE [ARGUMENT...]: one program, kept under its name once it is whole.
build() {
  local program=$1 package=$2
  shift 2
  [ -x "$target/bin/$program" ] && return
  echo "building $program" >&2
  go build "$@" -o "$target/bin/.$program" "$package"
  mv "$target/bin/.$program" "$target/bin/$program"
}

kubernetes() {
  local release=k8s.io/kubernetes@v$KUBERNETES file line replaced=()
  file=$(cd "$target/modules" && GOFLAGS= go mod download -json "$release" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  while read -r line; do
    replaced+=("replace $line => $line v0.${KUBERNETES#1.}")
  done < <(sed -n 's/^\s*\(k8s\.io\/[a-z0-9-]*\) => \.\/staging.*/\1/p' "$file")
  module kubernetes "require k8s.io/kubernetes v$KUBERNETES" "${replaced[@]}"
  local version=k8s.io/component-base/version.git
  local flags="-s -w -X ${version}Version=v$KUBERNETES -X ${version}Major=1 -X ${version}Minor=36"
  for program in kube-apiserver kubelet kube-scheduler kube-controller-manager; do
    build $program k8s.io/kubernetes/cmd/$program -ldflags "$flags"
  done
}

containerd() {
  local source=github.com/containerd/containerd/v2 tags="no_btrfs no_devmapper no_zfs"
  module containerd "require $source v$CONTAINERD"
  for program in containerd containerd-shim-runc-v2 ctr; do
    build $program $source/cmd/$program -tags "$tags" -ldflags "-s -w"
  done
}

runtime() {
  module runc "require github.com/opencontainers/runc v$RUNC"
  build runc github.com/opencontainers/runc -tags seccomp -ldflags "-s -w"
  local plugins=github.com/containernetworking/plugins
  module plugins "require $plugins v$CNI"
  build bridge $plugins/plugins/main/bridge
  build loopback $plugins/plugins/main/loopback
  build host-local $plugins/plugins/ipam/host-local
}

# The container that holds the namespaces of a Pod: it waits for a signal and reaps.
pause() {
  module pause
  cat > main.go <<'GO'
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if id, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); id <= 0 {
				break
			}
		}
	}
}
GO
  CGO_ENABLED=0 build pause . -ldflags "-s -w"
}

helm() {
  module helm "require helm.sh/helm/v3 v$HELM"
  build helm helm.sh/helm/v3/cmd/helm -ldflags "-s -w"
}

# Programs that read objects from their input and fail for a field that their release does not know.
strict() {
  local release program
  for release in $CHECKED; do
    program=${release#0.}
    program=strict-1.${program%.*}
    module "$program" "require k8s.io/client-go v$release"
    cat > main.go <<'GO'
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	reader := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	count := 0
	for {
		document, err := reader.Read()
		if err == io.EOF {
			break
		}
		if err == nil && len(bytes.TrimSpace(document)) > 0 {
			_, _, err = decoder.Decode(document, nil, nil)
			count++
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println(count)
}
GO
    CGO_ENABLED=0 build "$program" . -ldflags "-s -w"
  done
}

runtime
pause
containerd
kubernetes
helm
strict
