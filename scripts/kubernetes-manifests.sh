#!/bin/bash
# Renders the chart with its default values as plain manifests.
# usage: kubernetes-manifests.sh HELM > deploy/kubernetes/sandbox-mcp.yaml
set -euo pipefail

"$1" template sandbox-mcp "$(dirname "$0")/../deploy/chart" --namespace sandboxes --kube-version 1.36.0 --set createNamespace=true |
  sed '/^# Source: /d'
