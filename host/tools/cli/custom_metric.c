#include "cli/custom_metric.h"
#include "cli/command.h"
#include "data/value.h"
#include "data/scratch.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static inlay_status make_folders(struct custom_metric *custom, inlay_diag *diag)
{
    const char *tmp = getenv("TMPDIR");
    char inner[sizeof custom->dir + 2];

    (void)snprintf(custom->dir, sizeof custom->dir, "%s/inlay-compare.XXXXXX",
                   tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
    if (mkdtemp(custom->dir) == NULL) {
        custom->dir[0] = '\0';
        return inlay_fail(diag, INLAY_IO_ERROR, "no temporary folder for --metric custom: %s", strerror(errno));
    }
    for (int i = 0; i < 2; i++) {
        (void)snprintf(inner, sizeof inner, "%s/%c", custom->dir, 'a' + i);
        if (mkdir(inner, 0700) != 0)
            return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", inner, strerror(errno));
    }
    return INLAY_OK;
}

static inlay_status save_outputs(const struct custom_metric *custom, char which, const inlay_session *session,
                                 inlay_context *run, inlay_diag *diag)
{
    char dir[sizeof custom->dir + 2];
    inlay_status status = INLAY_OK;

    INLAY_CHECK(custom->dir[0] != '\0');
    (void)snprintf(dir, sizeof dir, "%s/%c", custom->dir, which);
    for (uint32_t i = 0; i < inlay_session_output_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = inlay_context_output(run, i);

        INLAY_TRY(inlay_session_output(session, i, &info));
        if (value != NULL)
            INLAY_TRY(value_save(dir, &info, value, diag));
    }
done:
    return status;
}

/* Reads the first line that the command printed. */
static void read_answer(const char *path, char *line, int bytes)
{
    FILE *from = fopen(path, "re");

    if (from == NULL || fgets(line, bytes, from) == NULL)
        line[0] = '\0';
    if (from != NULL)
        (void)fclose(from);
    line[strcspn(line, "\r\n")] = '\0';
}

inlay_status custom_metric_score(struct custom_metric *custom, const inlay_session *a, inlay_context *run_a,
                                 const inlay_session *b, inlay_context *run_b, double *out_score, inlay_diag *diag)
{
    char answer[256] = "", *end = NULL, left[sizeof custom->dir + 2], right[sizeof custom->dir + 2],
         printed[sizeof custom->dir + 8];
    const struct command run = { .line = custom->command,
                                 .flag = "--metric custom",
                                 .args = { left, right },
                                 .output = printed,
                                 .only_stdout = true };
    int code;
    inlay_status status = INLAY_OK;

    if (custom->dir[0] == '\0')
        INLAY_TRY(make_folders(custom, diag));
    (void)snprintf(left, sizeof left, "%s/a", custom->dir);
    (void)snprintf(right, sizeof right, "%s/b", custom->dir);
    (void)snprintf(printed, sizeof printed, "%s/printed", custom->dir);
    INLAY_TRY(save_outputs(custom, 'a', a, run_a, diag));
    INLAY_TRY(save_outputs(custom, 'b', b, run_b, diag));
    INLAY_TRY(command_run(&run, &code, diag));
    read_answer(printed, answer, sizeof answer);
    *out_score = strtod(answer, &end);
    if (code != 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--metric custom: '%s' failed", custom->command);
    else if (end == answer || *end != '\0')
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--metric custom: '%s' printed '%s', which is not a number",
                            custom->command, answer);
done:
    return status;
}

void custom_metric_end(struct custom_metric *custom)
{
    if (custom->dir[0] != '\0')
        scratch_remove_folder(custom->dir);
    custom->dir[0] = '\0';
}
