#include "cli/custom.h"
#include "cli/command.h"
#include "data/value.h"
#include "data/scratch.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static inlay_status make_folders(struct custom *c, inlay_diag *diag)
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

static inlay_status save_outputs(const struct custom *c, char which, const inlay_session *s, inlay_context *run,
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
            INLAY_TRY(value_save(dir, &info, value, diag));
    }
done:
    return status;
}

/* The first line of what the command printed. */
static void read_answer(const char *path, char *line, int bytes)
{
    FILE *from = fopen(path, "re");

    if (from == NULL || fgets(line, bytes, from) == NULL)
        line[0] = '\0';
    if (from != NULL)
        (void)fclose(from);
    line[strcspn(line, "\r\n")] = '\0';
}

inlay_status custom_score(struct custom *c, const inlay_session *a, inlay_context *run_a, const inlay_session *b,
                          inlay_context *run_b, double *out_score, inlay_diag *diag)
{
    char answer[256] = "", *end = NULL, left[sizeof c->dir + 2], right[sizeof c->dir + 2], printed[sizeof c->dir + 8];
    const struct command run = {
        .line = c->command, .flag = "--metric custom", .args = { left, right }, .output = printed, .only_stdout = true
    };
    int code;
    inlay_status status = INLAY_OK;

    if (c->dir[0] == '\0')
        INLAY_TRY(make_folders(c, diag));
    (void)snprintf(left, sizeof left, "%s/a", c->dir);
    (void)snprintf(right, sizeof right, "%s/b", c->dir);
    (void)snprintf(printed, sizeof printed, "%s/printed", c->dir);
    INLAY_TRY(save_outputs(c, 'a', a, run_a, diag));
    INLAY_TRY(save_outputs(c, 'b', b, run_b, diag));
    INLAY_TRY(command_run(&run, &code, diag));
    read_answer(printed, answer, sizeof answer);
    *out_score = strtod(answer, &end);
    if (code != 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--metric custom: '%s' failed", c->command);
    else if (end == answer || *end != '\0')
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--metric custom: '%s' printed '%s', which is no number",
                            c->command, answer);
done:
    return status;
}

void custom_end(struct custom *c)
{
    if (c->dir[0] != '\0')
        scratch_remove_folder(c->dir);
    c->dir[0] = '\0';
}
