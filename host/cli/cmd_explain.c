/* inlay explain: who runs what, and why. The words are the library's. */
#include "cli/cli.h"
#include <stdio.h>

static const char doc[] =
    "Shows which provider runs which part of MODEL: what won, what the others answered, what each part is expected to "
    "cost.\v"
    "Examples:\n"
    "  inlay explain model.onnx\n"
    "  inlay explain model.onnx --providers openblas,reference --dim batch=1 --json\n";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    return cli_parse_model(key, arg, state, state->input);
}

static void write_out(void *user, const char *text, size_t bytes)
{
    (void)fwrite(text, 1, bytes, user);
}

int cmd_explain(int argc, char **argv)
{
    static const struct argp argp = { NULL, parse, "MODEL", doc, NULL, NULL, NULL };
    const char *model = NULL;
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_status status;
    int code = CLI_OK;

    cli_parse(&argp, true, argc, argv, &common, &model);
    status = cli_open(&common, model, &session, &diag);
    if (status == INLAY_OK)
        status = inlay_session_explain(session, common.json ? "json" : "text", write_out, stdout, &diag);
    if (status == INLAY_OK && common.json)
        (void)putchar('\n');
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    inlay_session_destroy(session);
    cli_common_deinit(&common);
    return code;
}
