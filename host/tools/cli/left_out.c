/* In place of the verbs that this build lacks: CMake writes a list of LEFT_OUT(verb, "reason"). */
#include "cli/cli.h"
#include <stdio.h>

#define LEFT_OUT(verb, why)                                                                                            \
    int cmd_##verb(int argc, char **argv)                                                                              \
    {                                                                                                                  \
        (void)argc;                                                                                                    \
        (void)fprintf(stderr, "%s: not in this build, because %s\n", argv[0], why);                                    \
        return CLI_FAILED;                                                                                             \
    }
#include "left_out.def"
