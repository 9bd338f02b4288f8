/* peak_of FILE COMMAND [ARGUMENT...] - runs a command and writes its peak resident memory in KiB to FILE. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct rusage used;
    int status = 0;
    pid_t child;
    FILE *to;

    if (argc < 3)
        return 2;
    child = fork();
    if (child == 0) {
        (void)execv(argv[2], argv + 2);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child)
        return 2;
    to = fopen(argv[1], "we");
    if (to == NULL || fprintf(to, "%ld\n", used.ru_maxrss) < 0 || fclose(to) != 0)
        return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
