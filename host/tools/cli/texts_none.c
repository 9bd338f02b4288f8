/* In place of the verbs for language models where the build has no tokenizers. */
#include "cli/cli.h"
#include <stdio.h>

static int left_out(const char *verb)
{
    (void)fprintf(stderr, "%s: not in this build, because libunistring is not installed (libunistring-dev)\n", verb);
    return CLI_FAILED;
}

int cmd_generate(int argc, char **argv)
{
    (void)argc;
    return left_out(argv[0]);
}

int cmd_tokenize(int argc, char **argv)
{
    (void)argc;
    return left_out(argv[0]);
}

int cmd_chat(int argc, char **argv)
{
    (void)argc;
    return left_out(argv[0]);
}
