/* probe/sandbox.c - the system calls that an isolated provider may make: while it is opened, and afterwards. */
#include "probe/restrict.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef OWN_ARCHITECTURE
/* Memory, threads, time, and the files that are open already. */
static const uint16_t permitted[] = {
    SYS_futex,
    SYS_mmap, /* also of executable pages: libraries that generate code need them */
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_mlock,
    SYS_munlock,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_membarrier,
    SYS_exit,
    SYS_exit_group,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_gettid,
    SYS_getpid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_getcpu,
    SYS_getpriority,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_ppoll,
    SYS_read,
    SYS_pread64,
    SYS_write,
    SYS_close,
    SYS_lseek,
    SYS_fstat,
    SYS_recvfrom,
#if defined(SYS_poll)
    SYS_poll,
#endif
#if defined(SYS_time)
    SYS_time,
#endif
#if defined(SYS_futex_waitv)
    SYS_futex_waitv,
#endif
};
enum { PERMITTED = sizeof permitted / sizeof permitted[0] };

/* What opening a provider does not need: it reads files. */
static const uint16_t forbidden_in_opening[] = {
    /* other programs and processes */
    SYS_execve,
    SYS_execveat,
    SYS_kill,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_setpriority,
    SYS_ioprio_set,
    SYS_sched_setscheduler,
    SYS_sched_setparam,
    SYS_sched_setattr,
    SYS_setpgid,
    SYS_setsid,
    SYS_unshare,
    SYS_setns,
    /* sockets */
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_socketpair,
    /* memory and queues that outlive the process */
    SYS_shmget,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
    SYS_mq_unlink,
    /* changes of files */
    SYS_truncate,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_fchmod,
    SYS_fchmodat,
    452, /* fchmodat2 */
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_chroot,
    SYS_mount,
    SYS_umount2,
    SYS_open_by_handle_at,
    /* other ways to do the same */
    SYS_openat2,
    SYS_io_uring_setup,
    SYS_bpf,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
#if defined(SYS_renameat)
    SYS_renameat,
#endif
#if defined(SYS_fork)
    SYS_fork,
    SYS_vfork,
    SYS_creat,
    SYS_unlink,
    SYS_rename,
    SYS_mkdir,
    SYS_rmdir,
    SYS_mknod,
    SYS_link,
    SYS_symlink,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
};
enum { FORBIDDEN = sizeof forbidden_in_opening / sizeof forbidden_in_opening[0] };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
/* Continues with the next statement if the loaded value is `value`, otherwise skips it. */
#define IF_EQUAL(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)

static uint32_t add_head(struct sock_filter *list)
{
    const struct sock_filter head[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS), /* another architecture has other numbers */
        LOAD(nr),
        /* The C library falls back to clone, whose flags a filter can read. */
        IF_EQUAL(SYS_clone3),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
    };

    memcpy(list, head, sizeof head);
    return sizeof head / sizeof head[0];
}

static uint32_t add_tail(struct sock_filter *list)
{
    const struct sock_filter tail[] = {
        /* prctl only names threads and mappings. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 5),
        LOAD(args[0]),
        IF_EQUAL(PR_SET_NAME),
        RETURN(SECCOMP_RET_ALLOW),
        IF_EQUAL(0x53564d41), /* PR_SET_VMA */
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(nr),
#if defined(SYS_arch_prctl)
        /* arch_prctl only asks for the registers of AMX. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        LOAD(args[0]),
        IF_EQUAL(0x1023), /* ARCH_REQ_XCOMP_PERM */
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(nr),
#endif
        /* clone only starts threads. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(nr),
        /* prlimit64 only reads: the pointer to new limits is NULL. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 5),
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]) + 4),
        IF_EQUAL(0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
    };

    memcpy(list, tail, sizeof tail);
    return sizeof tail / sizeof tail[0];
}

/* Statements that forbid system call `call` with flags for writing or creating in its argument `at`. */
static uint32_t add_open(struct sock_filter *list, uint32_t call, uint32_t at)
{
    const struct sock_filter statements[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
        LOAD(args[at]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY), 0, 1),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };

    memcpy(list, statements, sizeof statements);
    return sizeof statements / sizeof statements[0];
}

/* Statements that answer a call whose first argument is the process with `same`, and other processes with `other`. */
static uint32_t add_process_rule(struct sock_filter *list, uint32_t call, pid_t process, uint32_t same, uint32_t other)
{
    const struct sock_filter statements[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
        LOAD(args[0]),
        IF_EQUAL((uint32_t)process),
        RETURN(same),
        RETURN(other),
    };

    memcpy(list, statements, sizeof statements);
    return sizeof statements / sizeof statements[0];
}

/* Statements that permit to set the affinity of a thread, but not that of the host's first one. The host's other
 * threads cannot be distinguished from those of this process. */
static uint32_t add_affinity_rule(struct sock_filter *list)
{
    return add_process_rule(list, SYS_sched_setaffinity, getppid(), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
}

/* Statements that permit signals to threads of this process only: abort() ends it by SIGABRT, which the host names. */
static uint32_t add_signal_rule(struct sock_filter *list)
{
    return add_process_rule(list, SYS_tgkill, getpid(), SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM);
}

/* Statements that permit new resource limits of this process only. */
static uint32_t add_limit_rule(struct sock_filter *list)
{
    const struct sock_filter statements[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 5),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
    };

    memcpy(list, statements, sizeof statements);
    return sizeof statements / sizeof statements[0];
}

static uint32_t add_thread_rule(struct sock_filter *list)
{
    const struct sock_filter statements[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };

    memcpy(list, statements, sizeof statements);
    return sizeof statements / sizeof statements[0];
}

static inlay_status install(struct sock_filter *list, uint32_t count, inlay_diag *diag)
{
    const struct sock_fprog program = { .filter = list, .len = (unsigned short)count };

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the process cannot be restricted with seccomp: %s",
                          strerror(errno));
    return INLAY_OK;
}

/* Hides other processes: from within a Landlock domain, a process may neither trace one outside it nor read its memory
 * and environment in /proc, unless it has root's capabilities. The rule itself forbids only device files, as the filter
 * does. Kernels before 5.13 have no domains, and some containers forbid them. */
static void hide_processes(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0, 0, 0 } };
    const struct landlock_ruleset_attr rules = { .handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_CHAR };
    const int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);

    (void)syscall(SYS_capset, &header, none);
    if (fd < 0)
        return;
    (void)syscall(SYS_landlock_restrict_self, fd, 0);
    (void)close(fd);
}

inlay_status restrict_opening(inlay_diag *diag)
{
    enum { OTHERS = 48 };
    struct sock_filter list[2 * FORBIDDEN + OTHERS];
    uint32_t count = add_head(list);

    hide_processes();
    for (uint32_t i = 0; i < FORBIDDEN; i++) {
        list[count++] = (struct sock_filter)IF_EQUAL(forbidden_in_opening[i]);
        list[count++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    }
    count += add_affinity_rule(list + count);
    count += add_signal_rule(list + count);
    count += add_limit_rule(list + count);
    count += add_thread_rule(list + count);
    count += add_open(list + count, SYS_openat, 2);
#if defined(SYS_open)
    count += add_open(list + count, SYS_open, 1);
#endif
    list[count++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    return install(list, count, diag);
}

inlay_status restrict_system_calls(inlay_diag *diag)
{
    enum { HEAD_AND_TAIL = 56 };
    struct sock_filter list[2 * PERMITTED + HEAD_AND_TAIL];
    uint32_t count = add_head(list);

    for (uint32_t i = 0; i < PERMITTED; i++) {
        list[count++] = (struct sock_filter)IF_EQUAL(permitted[i]);
        list[count++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    }
    count += add_affinity_rule(list + count);
    count += add_signal_rule(list + count);
    return install(list, count + add_tail(list + count), diag);
}
#else
inlay_status restrict_opening(inlay_diag *diag)
{
    return restrict_system_calls(diag);
}

inlay_status restrict_system_calls(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_UNSUPPORTED, "the process cannot be restricted with seccomp on this architecture");
}
#endif
