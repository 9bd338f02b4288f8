/* inlay greet: prints a word. */
#include "cli/cli.h"
#include <stdio.h>

static const char doc[] = "Prints a word.\v"
                          "Examples:\n"
                          "  inlay greet\n";

int cmd_greet(int argc, char **argv)
{
    static const cli_verb verb = { .doc = doc };
    cli_common common;
    char greeting[64];
    inlay_diag diag = { 0 };
    inlay_status status;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, NULL);
    status = inlay_options_get(common.options, "greeting", greeting, sizeof greeting, NULL, &diag);
    if (status == INLAY_OK)
        puts(greeting);
    else
        (void)cli_fail(&common, &diag);
    cli_common_deinit(&common);
    return cli_exit_code(status);
}
