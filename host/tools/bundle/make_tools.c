/* Files and programs for making a bundle. */
#include "base/among.h"
#include "base/spawn.h"
#include "bundle/maker.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *bundle_native_target(void)
{
#if defined(__aarch64__)
    return "aarch64-linux-gnu";
#else
    return "x86_64-linux-gnu";
#endif
}

const char *maker_target_meant(const char *target)
{
    static const struct {
        const char *words, *target;
    } rows[] = {
        { "arm64 aarch64 aarch64-linux arm64-linux linux-arm64 armv8", "aarch64-linux-gnu" },
        { "amd64 x64 x86_64 x86-64 x86_64-linux linux-x64", "x86_64-linux-gnu" },
        { "wasm wasm32-wasi wasi web wasm32-unknown-unknown", "wasm32" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_among(target, rows[i].words))
            return rows[i].target;
    return NULL;
}

bool maker_find_runtime(const char *target, char out[PATH_MAX])
{
    char here[PATH_MAX], path[PATH_MAX + 256];
    const ssize_t bytes = readlink("/proc/self/exe", here, sizeof here - 1);
    char *slash;

    if (bytes <= 0)
        return false;
    here[bytes] = '\0';
    slash = strrchr(here, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    (void)snprintf(path, sizeof path, "%s/%s/%s", here, INLAY_BUNDLE_FROM_BIN, target);
    return realpath(path, out) != NULL;
}

int maker_run(char *const *argv, const char *log)
{
    const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const spawn_fd fds[] = { { fd, STDOUT_FILENO }, { fd, STDERR_FILENO } };
    const spawn_args args = { .argv = (const char *const *)(uintptr_t)argv, .fds = fds, .fd_count = 2 };
    pid_t child;
    int error;

    if (fd < 0)
        return -1;
    error = spawn_start(&args, &child);
    (void)close(fd);
    return error == 0 ? spawn_wait(child, 0, NULL) : error == ENOENT ? SPAWN_NOT_FOUND : -1;
}

/* Extracts the most useful line of a tool's log: a symbol that is undefined or defined twice; otherwise the first
 * error, or the first line. */
static void read_log(const char *log, char *out, size_t bytes)
{
    static const char *const words[] = { "undefined reference", "undefined symbol", "multiple definition", "rror" };
    enum { SYMBOLS = 3, WORDS = sizeof words / sizeof words[0] };
    FILE *file = fopen(log, "r");
    char line[1024];
    size_t best = WORDS + 1;

    out[0] = '\0';
    while (file != NULL && best > 0 && fgets(line, sizeof line, file) != NULL) {
        const char *at = line;
        size_t word = 0;

        line[strcspn(line, "\n")] = '\0';
        while (word < WORDS && strstr(line, words[word]) == NULL)
            word++;
        if (word < SYMBOLS) /* the object file before it is in a deleted folder */
            at = strstr(line, words[word]);
        if (word < best)
            (void)snprintf(out, bytes, "%.*s", (int)bytes - 1, at);
        best = word < best ? word : best;
    }
    if (file != NULL)
        (void)fclose(file);
}

bool maker_is_native(const struct maker *maker)
{
    return strcmp(maker->job->target, bundle_native_target()) == 0;
}

bool maker_is_wasm(const struct maker *maker)
{
    return strcmp(maker->job->target, "wasm32") == 0;
}

const char *maker_compiler(const struct maker *maker)
{
    static char text[128];

    if (maker->job->cc != NULL)
        return maker->job->cc;
    if (maker_is_native(maker))
        return "cc";
    if (maker_is_wasm(maker))
        return "clang";
    (void)snprintf(text, sizeof text, "%s-gcc", maker->job->target);
    return text;
}

inlay_status maker_failed(struct maker *maker, const char *what, const char *tool, int code)
{
    char line[400];

    if (code == 127 && maker_is_wasm(maker))
        return inlay_fail(maker->diag, INLAY_NOT_FOUND,
                          "%s: cannot find '%s'; install clang, lld, wasi-libc and libclang-rt-dev-wasm32, or select a "
                          "compiler with --cc",
                          what, tool);
    if (code == 127)
        return inlay_fail(maker->diag, INLAY_NOT_FOUND, "%s: cannot find '%s'; select a compiler with --cc", what,
                          tool);
    read_log(maker->log, line, sizeof line);
    if (maker_is_wasm(maker) && (strstr(line, "wasm-ld") != NULL || strstr(line, "wasm32-wasi") != NULL))
        return inlay_fail(maker->diag, INLAY_NOT_FOUND, "%s: %s; install lld, wasi-libc and libclang-rt-dev-wasm32",
                          what, line);
    return inlay_fail(maker->diag, INLAY_INTERNAL, "%s: %s ended with %d: %s", what, tool, code, line);
}

uint32_t maker_link_runtime(struct maker *maker, char **argv, uint32_t count)
{
    if (maker->job->uniform) { /* references to uniform kernels are weak, so they select no member of an archive */
        argv[count++] = (char *)"-Wl,--whole-archive";
        argv[count++] = maker_path(maker, maker->runtime_dir, "libinlay_uniform.a");
        argv[count++] = (char *)"-Wl,--no-whole-archive";
    }
    argv[count++] = maker_path(maker, maker->runtime_dir, "libinlay_bundle.a");
    return count;
}

char *maker_path(struct maker *maker, const char *folder, const char *file)
{
    return arena_format(&maker->collection->arena, "%s/%s", folder, file);
}

inlay_status maker_write_file(struct maker *maker, const char *file, FILE **out)
{
    char *path = maker_path(maker, maker->job->dir, file);

    *out = path != NULL ? fopen(path, "wb") : NULL;
    return *out != NULL ? INLAY_OK
                        : inlay_fail(maker->diag, INLAY_IO_ERROR, "cannot write %s/%s: %s", maker->job->dir, file,
                                     strerror(errno));
}

inlay_status maker_close_file(struct maker *maker, FILE *stream, const char *file)
{
    const bool bad = ferror(stream) != 0;

    if (fclose(stream) != 0 || bad)
        return inlay_fail(maker->diag, INLAY_IO_ERROR, "cannot write %s/%s: %s", maker->job->dir, file,
                          strerror(errno));
    return INLAY_OK;
}

char *maker_tool(struct maker *maker, const char *tool)
{
    return maker_is_native(maker) ? arena_string(&maker->collection->arena, tool)
                                  : arena_format(&maker->collection->arena, "%s-%s", maker->job->target, tool);
}

uint32_t maker_wrap_heap(struct maker *maker, char **argv, uint32_t count)
{
    static const char *const wraps[] = { "malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign" };

    for (size_t i = 0; i < sizeof wraps / sizeof wraps[0]; i++)
        argv[count++] = arena_format(&maker->collection->arena, "-Wl,--wrap=%s", wraps[i]);
    return count;
}

char *maker_path_beside(struct arena *arena, const bundle_job *job, const char *suffix)
{
    const char *slash = strrchr(job->output, '/'), *dot = strrchr(job->output, '.');
    const int stem =
        dot != NULL && (slash == NULL || dot > slash) ? (int)(dot - job->output) : (int)strlen(job->output);

    return arena_format(arena, "%.*s%s", stem, job->output, suffix);
}
