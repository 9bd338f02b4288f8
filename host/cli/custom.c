#include "cli/custom.h"
#include "cli/value.h"
#include "quantize/scratch.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static inlay_status make_folders(custom *c, inlay_diag *diag)
{
    const char *tmp = getenv("TMPDIR");
    char inner[sizeof c->dir + 2];

    (void)snprintf(c->dir, sizeof c->dir, "%s/inlay-compare.XXXXXX", tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
    if (mkdtemp(c->dir) == NULL) {
        c->dir[0] = '\0';
        return inlay_fail(diag, INLAY_IO_ERROR, "no temporary folder for --metric custom: %s", strerror(errno));
    }
    for (int i = 0; i < 2; i++) {
        (void)snprintf(inner, sizeof inner, "%s/%c", c->dir, 'a' + i);
        if (mkdir(inner, 0700) != 0)
            return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", inner, strerror(errno));
    }
    return INLAY_OK;
}

static inlay_status save_outputs(const custom *c, char which, const inlay_session *s, inlay_context *run,
                                 inlay_diag *diag)
{
    char dir[sizeof c->dir + 2];
    inlay_status status = INLAY_OK;

    (void)snprintf(dir, sizeof dir, "%s/%c", c->dir, which);
    for (uint32_t i = 0; i < inlay_session_output_count(s); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = inlay_context_output(run, i);

        INLAY_TRY(inlay_session_output(s, i, &info));
        if (value != NULL)
            INLAY_TRY(value_save(dir, info.name, value, diag));
    }
done:
    return status;
}

/* Starts the command with its output in a pipe. */
static inlay_status start(const custom *c, pid_t *out_child, FILE **out_answer, inlay_diag *diag)
{
    char line[4096], a[sizeof c->dir + 2], b[sizeof c->dir + 2];
    char *const argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, line, (char[]){ "sh" }, a, b, NULL };
    posix_spawn_file_actions_t actions;
    int ends[2], code;

    if ((size_t)snprintf(line, sizeof line, "%s \"$@\"", c->command) >= sizeof line)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--metric custom: a command of more than %zu bytes",
                          sizeof line);
    (void)snprintf(a, sizeof a, "%s/a", c->dir);
    (void)snprintf(b, sizeof b, "%s/b", c->dir);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "no pipe for --metric custom: %s", strerror(errno));
    code = posix_spawn_file_actions_init(&actions);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (code == 0)
        code = posix_spawn(out_child, "/bin/sh", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    *out_answer = code == 0 ? fdopen(ends[0], "r") : NULL;
    if (*out_answer != NULL)
        return INLAY_OK;
    (void)close(ends[0]);
    return inlay_fail(diag, INLAY_IO_ERROR, "/bin/sh for --metric custom: %s", strerror(code));
}

inlay_status custom_score(custom *c, const inlay_session *a, inlay_context *run_a, const inlay_session *b,
                          inlay_context *run_b, double *out_score, inlay_diag *diag)
{
    char answer[256] = "", *end = NULL;
    FILE *from = NULL;
    pid_t child = -1;
    int state = 0;
    inlay_status status = INLAY_OK;

    if (c->dir[0] == '\0')
        INLAY_TRY(make_folders(c, diag));
    INLAY_TRY(save_outputs(c, 'a', a, run_a, diag));
    INLAY_TRY(save_outputs(c, 'b', b, run_b, diag));
    INLAY_TRY(start(c, &child, &from, diag));
    if (fgets(answer, sizeof answer, from) == NULL)
        answer[0] = '\0';
    (void)fclose(from);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        continue;
    answer[strcspn(answer, "\r\n")] = '\0';
    *out_score = strtod(answer, &end);
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--metric custom: '%s' failed", c->command);
    else if (end == answer || *end != '\0')
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--metric custom: '%s' printed '%s', which is no number",
                            c->command, answer);
done:
    return status;
}

void custom_end(custom *c)
{
    if (c->dir[0] != '\0')
        scratch_remove_folder(c->dir);
    c->dir[0] = '\0';
}
