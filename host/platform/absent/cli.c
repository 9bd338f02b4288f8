/* What verbs of a reduced build leave out: settings of inlay-serve, files of caches, the restart after a crash of a
 * plug-in, and timing in new processes. */
#include "cli/cli.h"
#include "cli/cache_file.h"
#include "cli/fork_server.h"
#include "cli/types.h"
#include "lock/proof.h"
#include <errno.h>
#include <stdio.h>

inlay_status cli_serve_check(const char *path, inlay_log_fn note, void *user)
{
    (void)path;
    note(user, 0, "files with settings of inlay-serve are not checked by this build, which has no inlay-serve");
    return INLAY_UNSUPPORTED;
}

inlay_status cache_file_costs(const char *path, char *folder, cache_file_machine *out, inlay_diag *diag)
{
    (void)folder, (void)out;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: this build reads no files of caches", path);
}

inlay_status cli_types_text(plugin_set *set, inlay_diag *diag)
{
    (void)set;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "--types is not in this build; use a complete build for Linux");
}

void file_hash_begin(file_hash *hash, const char *path)
{
    (void)path;
    *hash = (file_hash){ .is_running = false };
}

inlay_status file_hash_end(file_hash *hash, inlay_diag *diag)
{
    (void)hash, (void)diag;
    return INLAY_OK;
}

inlay_status proof_run_begin(const char *path, inlay_options *options, uint32_t count, proof_run *out, inlay_diag *diag)
{
    (void)path, (void)options, (void)count;
    *out = (proof_run){ 0 };
    return inlay_fail(diag, INLAY_UNSUPPORTED, "--commit is not in this build; use a complete build for Linux");
}

inlay_status proof_run_make(proof_run *run, const inlay_session *session, inlay_value *const *inputs,
                            const inlay_run_options *limits, inlay_diag *diag)
{
    (void)run, (void)session, (void)inputs, (void)limits, (void)diag;
    return INLAY_OK;
}

inlay_value *proof_run_output(const proof_run *run, uint32_t index)
{
    (void)run, (void)index;
    return NULL;
}

inlay_status proof_run_write(const proof_run *run, file_hash *model, const char *folder, const inlay_options *options,
                             char root[65], inlay_diag *diag)
{
    (void)run, (void)model, (void)folder, (void)options, (void)root, (void)diag;
    return INLAY_OK;
}

void proof_run_deinit(proof_run *run)
{
    *run = (proof_run){ 0 };
}

void cli_restart_init(int argc, char **argv)
{
    (void)argc, (void)argv;
}

void cli_restart_allow(bool on)
{
    (void)on;
}

bool fork_server_start(struct fork_server *server, fork_server_work work, void *user)
{
    (void)work, (void)user;
    *server = (struct fork_server){ .in = -1 };
    errno = ENOSYS;
    return false;
}

bool fork_server_call(const struct fork_server *server, const char *text, double *out)
{
    (void)server, (void)text, (void)out;
    return false;
}

void fork_server_stop(struct fork_server *server)
{
    (void)server;
}
