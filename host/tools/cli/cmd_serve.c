/* inlay serve: starts inlay-serve, a separate program, so that this one needs no network library. */
#include "base/spawn.h"
#include "cli/cli.h"
#include "cli/help.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char doc_serve[] =
    "Serves the models in MODELS, a folder (NAME.onnx, or NAME/VERSION/model.onnx and NAME/config.yaml) or one file, "
    "over the Open Inference Protocol.\v"
    "Examples:\n"
    "  inlay serve models/\n"
    "  inlay serve model.onnx --port 8080 --max-batch 32 --batch-delay-us 500\n"
    "  inlay serve models/ --workers 2 --token-file tokens.txt --access-log -\n";

/* Settings that --help shows; inlay-serve itself prints all of them for --help-all. */
static const char *const shown[] = { "listen",     "port",     "grpc_port",  "max_batch",  "batch_delay_us",
                                     "instances",  "workers",  "timeout_ms", "model_name", "poll_ms",
                                     "token_file", "tls_cert", "tls_key",    "access_log", "drain_ms" };
enum { SHOWN = sizeof shown / sizeof shown[0] };

/* The name of a setting as a flag; its description up to the first semicolon, and its default. */
static void describe(const char *name, const char *arg, const char *default_value, const char *text,
                     struct argp_option *row)
{
    static char names[SHOWN][32], docs[SHOWN][256];
    uint32_t i = 0;

    while (i < SHOWN && strcmp(shown[i], name) != 0)
        i++;
    if (i == SHOWN)
        return;
    (void)snprintf(names[i], sizeof names[i], "%s", name);
    for (char *c = names[i]; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    (void)snprintf(docs[i], sizeof docs[i], default_value[0] != '\0' ? "%.*s (default: %s)" : "%.*s",
                   (int)strcspn(text, ";"), text, default_value);
    row[i] = (struct argp_option){ .name = names[i], .arg = arg, .doc = docs[i] };
}

static int print_help(const char *name)
{
    static const cli_verb verb = { "MODELS", doc_serve, NULL, NULL };
    struct argp_option rows[SHOWN + 1] = { { 0 } };

#define TEXT "TEXT"
#define PATH "PATH"
#define READ "FILE"
#define INT "N"
#define SETTING(setting, kind, default_value, min, max, text) describe(#setting, kind, default_value, text, rows);
#include "serve/base/settings.def"
#undef SETTING
#undef TEXT
#undef PATH
#undef READ
#undef INT
    help_print(&(help_page){ name, &verb, rows, NULL, NULL, false }, false, stdout);
    return CLI_OK;
}

static const char absent[] = "; it is in the package inlay-serve and in builds with GnuTLS and libnghttp2";

/* inlay-serve in the folder of this program, or else as PATH finds it. */
static const char *program_in(char path[4096])
{
    static const char name[] = "inlay-serve";
    const ssize_t bytes = readlink("/proc/self/exe", path, 4095);
    char *slash;

    path[bytes > 0 ? bytes : 0] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof name > 4096)
        return name;
    memcpy(slash + 1, name, sizeof name);
    return access(path, X_OK) == 0 ? path : name;
}

inlay_status cli_serve_check(const char *path, inlay_log_fn note, void *user)
{
    char program[4096], line[2048];
    const char *const argv[] = { program_in(program), "--check", path, NULL };
    int ends[2], code = SPAWN_NOT_FOUND;
    pid_t child;
    FILE *lines;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return INLAY_IO_ERROR;
    if (spawn_start(&(spawn_args){ argv, &(spawn_fd){ ends[1], STDOUT_FILENO }, 1, true, false, NULL }, &child) != 0)
        child = -1;
    (void)close(ends[1]);
    lines = fdopen(ends[0], "r");
    while (lines != NULL && fgets(line, sizeof line, lines) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        note(user, 0, line);
    }
    if (lines != NULL)
        (void)fclose(lines);
    if (child > 0)
        code = spawn_wait(child, 0, NULL);
    if (code == 0)
        return INLAY_OK;
    if (code != CLI_USAGE) {
        (void)snprintf(line, sizeof line, "%.1000s: cannot start inlay-serve, which checks it%s", path, absent);
        note(user, 0, line);
        return INLAY_NOT_FOUND;
    }
    return INLAY_INVALID_ARGUMENT;
}

int cmd_serve(int argc, char **argv)
{
    static char help[] = "--help";
    char path[4096];

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-?") == 0)
            return print_help(argv[0]);
        if (strcmp(argv[i], "--help-all") == 0)
            argv[i] = help;
    }
    (void)fflush(stdout);
    (void)execvp(program_in(path), argv); /* argv[0] is "inlay serve", the prefix of its help and errors */
    (void)fprintf(stderr, "%s: cannot start inlay-serve: %s%s\n", argv[0], strerror(errno),
                  errno == ENOENT ? absent : "");
    return CLI_FAILED;
}
