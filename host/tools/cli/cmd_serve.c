/* inlay serve: starts inlay-serve, a separate program, so that this one needs no network library. */
#include "cli/cli.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Starts the program in the folder of this one, or else the one that PATH finds. */
static void start(char **argv)
{
    static const char name[] = "inlay-serve";
    char path[4096];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    char *slash;

    if (bytes > 0) {
        path[bytes] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL && (size_t)(slash + 1 - path) + sizeof name <= sizeof path) {
            memcpy(slash + 1, name, sizeof name);
            (void)execv(path, argv);
        }
    }
    (void)execvp(name, argv);
}

int cmd_serve(int argc, char **argv)
{
    (void)argc;
    (void)fflush(stdout);
    start(argv); /* argv[0] is "inlay serve", the prefix of its help and errors */
    (void)fprintf(stderr, "%s: cannot start inlay-serve: %s%s\n", argv[0], strerror(errno),
                  errno == ENOENT ? "; it is built where GnuTLS and libnghttp2 are installed" : "");
    return CLI_FAILED;
}
