/** System calls that no program of a sandbox needs, in the order of the attack E32. */

const NAMES = `add_key bpf delete_module fanotify_init finit_module fsopen init_module io_uring_enter
io_uring_register io_uring_setup kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind
migrate_pages move_pages name_to_handle_at open_by_handle_at perf_event_open pidfd_getfd
process_madvise process_vm_readv process_vm_writev quotactl quotactl_fd request_key set_mempolicy
settimeofday swapoff syslog userfaultfd vhangup`;

export const REFUSED_CALLS: readonly string[] = NAMES.split(/\s+/);
