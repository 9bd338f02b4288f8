/* Creates and releases many sessions through libraries with ONNX Runtime's C interface, one process for each library:
 * CPU time, and resident memory after the first tenth and at the end.
 *     bench_sessions MODEL COUNT LIBRARY... */
#include "api.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const OrtApi *api;

static void check(OrtStatus *status)
{
    if (status == NULL)
        return;
    (void)fprintf(stderr, "bench_sessions: %s\n", api->GetErrorMessage(status));
    exit(1);
}

static const OrtApiBase *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW), *symbol = library != NULL ? dlsym(library, "OrtGetApiBase") : NULL;
    const OrtApiBase *(*get_base)(void);

    if (symbol == NULL) {
        (void)fprintf(stderr, "bench_sessions: %s\n", dlerror());
        exit(1);
    }
    memcpy(&get_base, &symbol, sizeof symbol);
    return get_base();
}

static double cpu_seconds(void)
{
    struct rusage use;

    (void)getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static double resident_mib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        (void)fprintf(stderr, "bench_sessions: /proc/self/statm cannot be read\n");
        exit(1);
    }
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void measure(const char *path, const char *model, int count)
{
    const OrtApiBase *base = load(path);
    OrtSessionOptions *options = NULL;
    OrtEnv *env = NULL;
    double start = 0, early = 0;

    api = base->GetApi(17); /* has all entries that are called here */
    check(api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "bench", &env));
    check(api->CreateSessionOptions(&options));
    for (int i = 0; i <= count; i++) {
        OrtSession *session = NULL;

        if (i == 1) /* the first session loads plug-ins */
            start = cpu_seconds();
        check(api->CreateSession(env, model, options, &session));
        api->ReleaseSession(session);
        if (i == count / 10)
            early = resident_mib();
    }
    printf("%s: %d sessions in %.2f s of CPU time, resident memory %.1f MiB after %d and %.1f MiB at the end\n", path,
           count, cpu_seconds() - start, early, count / 10, resident_mib());
    api->ReleaseSessionOptions(options);
    api->ReleaseEnv(env);
}

int main(int argc, char **argv)
{
    const int count = argc > 3 ? atoi(argv[2]) : 0;
    int failed = 0;

    if (count < 10) {
        (void)fprintf(stderr, "usage: bench_sessions MODEL COUNT LIBRARY..., COUNT is at least 10\n");
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        int status = 0;
        const pid_t child = fork();

        if (child == 0) {
            measure(argv[i], argv[1], count);
            (void)fflush(stdout);
            _exit(0); /* without the destructors of both libraries */
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            failed = 1;
    }
    return failed;
}
