#!/bin/bash
# Renders the chart with its default values as plain manifests. The first line has the digest of the
# chart's files, so that a test without Helm sees a chart that was changed and not rendered again.
# usage: kubernetes-manifests.sh HELM > deploy/kubernetes/sandbox-mcp.yaml
set -euo pipefail

chart=$(cd "$(dirname "$0")/../deploy/chart" && pwd)
files=("$chart/Chart.yaml" "$chart/values.yaml" "$chart"/templates/*.yaml)
echo "# of the chart sha256:$(cat "${files[@]}" | sha256sum | cut -d' ' -f1)"
"$1" template sandbox-mcp "$chart" --namespace sandboxes --kube-version 1.36.0 --set createNamespace=true |
  sed '/^# Source: /d; /^$/d'
