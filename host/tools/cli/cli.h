/* cli/cli.h - code that all verbs share: flags, exit codes, error lines, progress, Ctrl-C.
 *
 * A verb is a function cmd_<name>(argc, argv) in cmd_<name>.c that returns an exit code. It prints results to stdout
 * and everything else to stderr; with --json, stdout carries one JSON value, also when the verb fails. */
#ifndef CLI_CLI_H
#define CLI_CLI_H
#include "base/memory.h"
#include "cli/options.h"
#include "inlay/inlay.h"
#include <jansson.h>

/* Exit codes; `inlay help exit-codes` prints this list. */
#define CLI_EXIT_LIST(X)                                                                                               \
    X(0, OK, "done")                                                                                                   \
    X(1, FAILED, "the work failed: a run, a test case, a comparison, a check")                                         \
    X(2, USAGE, "wrong use: an unknown verb, a wrong flag, setting or value")                                          \
    X(3, BAD_FILE, "a model or another file is missing, unreadable or invalid")                                        \
    X(4, UNSUPPORTED, "no provider runs an operator, version or type of the model")                                    \
    X(130, CANCELLED, "stopped with Ctrl-C")
enum {
#define CLI_EXIT_ENUM(number, name, text) CLI_##name = number,
    CLI_EXIT_LIST(CLI_EXIT_ENUM)
#undef CLI_EXIT_ENUM
};

/* The library's options, by what reads them. A verb accepts as flags those that it reads, and refuses the others by
 * name; files and the environment, which apply to all verbs, may set any. */
typedef enum cli_settings {
    CLI_SETTINGS_NONE = 0,
    CLI_SETTINGS_CACHE = 1,     /* the cache folder */
    CLI_SETTINGS_PLUGINS = 2,   /* the search for plugins */
    CLI_SETTINGS_PROVIDERS = 4, /* opening providers without a session: isa, and the options of providers */
    CLI_SETTINGS_MODEL = 8,     /* loading a model */
    CLI_SETTINGS_CHECK = CLI_SETTINGS_CACHE | CLI_SETTINGS_PLUGINS | CLI_SETTINGS_MODEL, /* see load_model.h */
    CLI_SETTINGS_SESSION = 31                                                            /* all */
} cli_settings;

/* The flags that all verbs accept, and the session options from files, environment and flags. */
typedef struct cli_common {
    const char *verb;        /* "inlay run", the prefix of error lines */
    inlay_options *options;  /* every option of the library, see inlay config; owned */
    const char *config_file; /* --config, or NULL */
    bool no_config;          /* --no-config */
    cli_settings settings;   /* the options that the verb reads */
    bool json;
    bool quiet;         /* no progress bar */
    bool many_sessions; /* set by a verb that creates several sessions and draws the bar itself */
    bool verbose;       /* print the library's log down to debug lines */
} cli_common;

/* Parses a verb's options (options.h) into args, and the common ones. settings: the library's options that the verb
 * reads, from flags, files and environment. An error ends the process with CLI_USAGE or, for unreadable files, with
 * CLI_BAD_FILE; --help ends it with CLI_OK. Release with cli_common_deinit(). */
void cli_parse(const cli_verb *verb, cli_settings settings, int argc, char **argv, cli_common *common, void *args);
/* Refuses the session options that flags have set, for a mode of the verb that reads none: the one of this flag. */
void cli_reads_none(const cli_common *common, const char *mode);
void cli_common_deinit(cli_common *common);

/* Whether an argument of cli_output_file() was standard output. */
bool cli_stdout_is_file(void);

/* Attaches the log, the progress bar and Ctrl-C to the options; cli_open() calls it. */
void cli_attach(cli_common *common);
/* Creates the session with a progress bar, the log and Ctrl-C attached. */
INLAY_NODISCARD inlay_status cli_open(cli_common *common, const char *path, inlay_session **out_session,
                                      inlay_diag *diag);

/* Writes "VERB: ..." to stderr: one line, which a terminal gets in lines of its width. */
INLAY_PRINTF(2, 3) void cli_say(const cli_common *common, const char *format, ...);
/* The same with a coloured prefix where a terminal shows colours: level 0 is an error, 1 a warning. */
void cli_write_line(const cli_common *common, uint32_t level, const char *text);
/* Prints the failure (with --json as {"error": ...}) and returns the matching exit code. */
int cli_fail(const cli_common *common, const inlay_diag *failure);
/* A path or a message for JSON, which is UTF-8: bytes that are not become U+FFFD. Returns `text` itself if it is valid
 * or NULL, otherwise a copy that is never freed; for the main thread. */
const char *cli_text(const char *text);
/* {"code": "invalid model", "text": ..., "node": ..., "tensor": ...} */
json_t *cli_diag_json(const inlay_diag *diag);
/* Checks a file with settings of inlay-serve: note() gets each mistake. INLAY_NOT_FOUND: inlay-serve cannot be
 * started. */
INLAY_NODISCARD inlay_status cli_serve_check(const char *path, inlay_log_fn note, void *user);
/* The exit code of a status. */
int cli_exit_code(inlay_status status);
/* Prints json to stdout and releases it. NULL (no memory) prints an error line. Returns code, or CLI_FAILED. */
int cli_print_json(const cli_common *common, json_t *json, int code);

/* Enables crash reports for plugins, and prepares to start the program again; argv is the argument of main(). */
void cli_restart_init(int argc, char **argv);
/* While on, a crash in a plugin that can be quarantined starts the program again. The caller must not have printed to
 * stdout or read from stdin. */
void cli_restart_allow(bool on);

/* From this call on, Ctrl-C sets *cli_cancel() instead of ending the process; a second Ctrl-C ends it. */
void cli_catch_interrupt(void);
/* Non-zero after the user has pressed Ctrl-C. For inlay_run_options.cancel. */
const uint32_t *cli_cancel(void);
bool cli_cancelled(void);

/* Draws a bar on stderr if it is a terminal; an inlay_progress_fn (user is ignored). fraction is in [0, 1]. Returns
 * non-zero after the user has pressed Ctrl-C. */
int cli_progress(void *user, double fraction, const char *what);
void cli_progress_enable(bool on);
void cli_progress_clear(void); /* before other output */

#define VERB(name, summary) int cmd_##name(int argc, char **argv);
#include "cli/verbs.def"
#undef VERB
#endif
