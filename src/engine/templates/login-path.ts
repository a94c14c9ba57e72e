/**
 * A part of `/etc/profile` by which login shells find the programs of their template: clients run
 * commands by `bash -l -c`, and the profile of Debian and Alpine sets PATH anew.
 */

/** Read before the other parts, so what these add to PATH stays in front. */
export const LOGIN_PATH_FILE = "/etc/profile.d/00-sandbox-mcp-path.sh";

/**
 * The PATH that the shell was started with comes first, then what the profile has besides. That of
 * the daemon says nothing of a template, and leaves the profile as it is.
 */
export const LOGIN_PATH = `# PATH of the image and of ENV steps, which the profile has set anew.
if [ -n "\${BASH_VERSION-}" ] && [ -r "/proc/$$/environ" ]; then
  while IFS= read -r -d '' smcp_entry; do
    case $smcp_entry in
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin) ;;
    PATH=?*)
      smcp_rest=$PATH:
      PATH=\${smcp_entry#PATH=}
      while [ -n "$smcp_rest" ]; do
        smcp_entry=\${smcp_rest%%:*}
        smcp_rest=\${smcp_rest#*:}
        case :$PATH: in
        *":$smcp_entry:"*) ;;
        *) PATH=$PATH:$smcp_entry ;;
        esac
      done
      ;;
    esac
  done < "/proc/$$/environ"
  unset smcp_entry smcp_rest
fi
`;
