/* fork_main.c - a library to preload into a program: runs its main() for each line of standard input, so that valgrind
 * translates the program once for many runs. A line is a word and the arguments, separated by tabs: "fork" runs them in
 * a copy of the process, "stay" in the process itself, whose state the copies begin with. The answer is a line with
 * the exit code on standard output; what the program prints there is discarded.
 *
 * Variable FORK_MAIN is the name of the program. Others, such as valgrind itself, are not affected. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 64 };
typedef int (*main_function)(int argc, char **argv, char **environment);
typedef int (*start_function)(main_function function, int argc, char **argv, void (*init)(void), void (*fini)(void),
                              void (*end)(void), void *stack);

static main_function program;

static int run(char *line, char **environment)
{
    char *argv[MOST_ARGUMENTS + 1] = { NULL };
    int argc = 0;

    for (char *word = strtok(line, "\t"); word != NULL && argc < MOST_ARGUMENTS; word = strtok(NULL, "\t"))
        argv[argc++] = word;
    return program(argc, argv, environment);
}

static int run_copy(char *line, char **environment)
{
    const pid_t pid = fork();
    int state = 0;

    if (pid == 0)
        exit(run(line, environment));
    if (pid < 0 || waitpid(pid, &state, 0) != pid)
        return -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static int serve(int argc, char **argv, char **environment)
{
    const int answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), none = open("/dev/null", O_WRONLY);
    FILE *requests = fdopen(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), "re");
    char *line = NULL;
    size_t capacity = 0;

    (void)argc, (void)argv;
    if (requests == NULL || answers < 0 || none < 0 || dup2(none, STDOUT_FILENO) < 0)
        return 1;
    while (getline(&line, &capacity, requests) > 0) {
        char *arguments = strchr(line, '\t');

        line[strcspn(line, "\n")] = '\0';
        if (arguments == NULL)
            return 1;
        *arguments++ = '\0';
        (void)dprintf(answers, "%d\n",
                      strcmp(line, "fork") == 0 ? run_copy(arguments, environment) : run(arguments, environment));
    }
    _exit(0); /* the program's own exit is that of its last run */
}

int __libc_start_main(main_function function, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*end)(void), void *stack);
int __libc_start_main(main_function function, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*end)(void), void *stack)
{
    void *symbol = dlsym(RTLD_NEXT, "__libc_start_main");
    const char *name = getenv("FORK_MAIN");
    start_function start;

    memcpy(&start, &symbol, sizeof start);
    program = function;
    if (name != NULL && strcmp(name, program_invocation_short_name) == 0)
        function = serve;
    return start(function, argc, argv, init, fini, end, stack);
}
