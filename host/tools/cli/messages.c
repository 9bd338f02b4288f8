/* What verbs print about failures: lines on stderr, JSON on stdout, exit codes. */
#include "base/arena.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "shared/terminal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_write_line(const cli_common *common, uint32_t level, const char *text)
{
    const char *colour = level == 0 ? "\033[31m" : level == 1 ? "\033[33m" : "";
    const bool coloured = colour[0] != '\0' && terminal_has_colours(STDERR_FILENO);
    char *line = NULL;
    const int bytes =
        asprintf(&line, "%s%s:%s %s\n", coloured ? colour : "", common->verb, coloured ? "\033[0m" : "", text);

    if (bytes >= 0 && isatty(STDERR_FILENO))
        screen_wrap(line, (size_t)bytes, terminal_columns(STDERR_FILENO), stderr);
    else
        (void)fprintf(stderr, "%s: %s\n", common->verb, text);
    if (bytes >= 0)
        free(line);
}

void cli_say(const cli_common *common, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    int bytes;

    va_start(args, format);
    bytes = vasprintf(&text, format, args);
    va_end(args);
    if (bytes < 0)
        return; /* no memory */
    cli_write_line(common, 2, text);
    free(text);
}

int cli_exit_code(inlay_status status)
{
    switch (status) {
    case INLAY_OK:
        return CLI_OK;
    case INLAY_INVALID_ARGUMENT:
        return CLI_USAGE;
    case INLAY_NOT_FOUND:
    case INLAY_INVALID_MODEL:
    case INLAY_IO_ERROR:
    case INLAY_LIMIT_EXCEEDED:
        return CLI_BAD_FILE;
    case INLAY_UNSUPPORTED:
        return CLI_UNSUPPORTED;
    case INLAY_CANCELLED:
        return CLI_CANCELLED;
    default:
        return CLI_FAILED;
    }
}

const char *cli_text(const char *text)
{
    static struct arena copies;
    const size_t bytes = text != NULL ? strlen(text) : 0;
    char *copy, *to;

    if (text == NULL || utf8_is_valid(text, bytes))
        return text;
    copy = to = arena_alloc(&copies, 3 * bytes + 1); /* U+FFFD has three bytes */
    for (size_t at = 0; copy != NULL && at < bytes;) {
        uint32_t point = 0xFFFD;
        const size_t length = utf8_get(text + at, bytes - at, &point);

        to += utf8_put(to, length > 0 ? point : 0xFFFD);
        at += length > 0 ? length : 1;
    }
    if (copy != NULL)
        *to = '\0';
    return copy != NULL ? copy : "(not printable)";
}

json_t *cli_diag_json(const inlay_diag *diag)
{
    json_t *json = json_pack("{s:s, s:s}", "code", inlay_status_text(diag->code), "text", cli_text(diag->text));

    if (diag->node[0] != '\0')
        (void)json_object_set_new(json, "node", json_string(cli_text(diag->node)));
    if (diag->tensor[0] != '\0')
        (void)json_object_set_new(json, "tensor", json_string(cli_text(diag->tensor)));
    return json;
}

int cli_fail(const cli_common *common, const inlay_diag *failure)
{
    inlay_diag copy = *failure;
    const inlay_diag *diag = &copy;

    if (diag->code == INLAY_OK) /* a failure never reports "ok" */
        copy.code = INLAY_INTERNAL;
    cli_progress_clear();
    screen_flush();
    cli_write_line(common, 0, diag->text[0] != '\0' ? diag->text : inlay_status_text(diag->code));
    if (common->json)
        (void)cli_print_json(common, json_pack("{s:o}", "error", cli_diag_json(diag)), 0);
    return cli_exit_code(diag->code);
}

int cli_print_json(const cli_common *common, json_t *json, int code)
{
    if (json == NULL || json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) != 0) {
        if (!ferror(stdout)) /* otherwise output_guard_streams() reports it at exit */
            (void)fprintf(stderr, "%s: cannot print the result as JSON\n", common->verb);
        code = CLI_FAILED;
    }
    (void)putchar('\n');
    json_decref(json);
    return code;
}

static bool has_json(int argc, char *const *argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

void cli_refuse(const struct argp_state *state, int code, const char *format, ...)
{
    cli_common common = { .verb = state->argv[0], .json = has_json(state->argc, state->argv) };
    inlay_diag diag = INLAY_DIAG_INIT;
    char text[sizeof diag.text];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)inlay_fail(&diag, code == CLI_USAGE ? INLAY_INVALID_ARGUMENT : INLAY_IO_ERROR, "%s", text);
    exit(cli_fail(&common, &diag));
}
