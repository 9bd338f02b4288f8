#include "bundle/make.h"
#include "base/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* LEVEL_ALONE: of bundle_level(), the part without products of bytes. */
enum { MOST_ARGS = 128, MOST_PARTS = 512, MISSED = 5, LEVEL_ALONE = 15 };

/* ------------------------------------------------------------------ places and commands */

const char *bundle_native_target(void)
{
#if defined(__aarch64__)
    return "aarch64-linux-gnu";
#else
    return "x86_64-linux-gnu";
#endif
}

/* The folder of the run-time part for the target, relative to this program. */
static bool find_parts(const char *target, char out[PATH_MAX])
{
    char here[PATH_MAX], path[PATH_MAX + 256];
    const ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
    char *slash;

    if (n <= 0)
        return false;
    here[n] = '\0';
    slash = strrchr(here, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    (void)snprintf(path, sizeof path, "%s/%s/%s", here, INLAY_BUNDLE_FROM_BIN, target);
    return realpath(path, out) != NULL;
}

bool bundle_has_target(const char *target)
{
    char path[PATH_MAX];

    return find_parts(target, path);
}

/* Runs argv with its output in log; the exit code, 127 where there is no such program, -1 where it could not be run. */
static int run(char *const *argv, const char *log)
{
    posix_spawn_file_actions_t actions;
    int code = -1, error;
    pid_t pid;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    error = posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (error == 0)
        error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return error == ENOENT ? 127 : -1;
    while (waitpid(pid, &code, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}

/* The first line of the log that has `word`, otherwise the first one. */
static void read_log(const char *log, const char *word, char *out, size_t bytes)
{
    FILE *f = fopen(log, "r");
    char line[1024];

    out[0] = '\0';
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (out[0] == '\0' || strstr(line, word) != NULL)
            (void)snprintf(out, bytes, "%.*s", (int)bytes - 1, line);
        if (strstr(line, word) != NULL)
            break;
    }
    if (f != NULL)
        (void)fclose(f);
}

typedef struct maker {
    bundle_job *job;
    bundle_collection *c;
    bundle_names n;
    bundle_facts f;
    char parts[PATH_MAX];
    char log[PATH_MAX];
    inlay_diag *diag;
} maker;

static bool is_native(const maker *m)
{
    return strcmp(m->job->target, bundle_native_target()) == 0;
}

static const char *compiler(const maker *m)
{
    static char text[128];

    if (m->job->cc != NULL)
        return m->job->cc;
    if (is_native(m))
        return "cc";
    (void)snprintf(text, sizeof text, "%s-gcc", m->job->target);
    return text;
}

static inlay_status failed(maker *m, const char *what, const char *tool, int code)
{
    char line[400];

    if (code == 127)
        return inlay_fail(m->diag, INLAY_NOT_FOUND, "%s: there is no program '%s'; --cc names another compiler", what,
                          tool);
    read_log(m->log, "rror", line, sizeof line);
    return inlay_fail(m->diag, INLAY_INTERNAL, "%s: %s ended with %d: %s", what, tool, code, line);
}

static char *format(maker *m, const char *folder, const char *file)
{
    return arena_format(&m->c->a, "%s/%s", folder, file);
}

/* ------------------------------------------------------------------ sources */

static inlay_status write_file(maker *m, const char *file, FILE **out)
{
    char *path = format(m, m->job->dir, file);

    *out = path != NULL ? fopen(path, "wb") : NULL;
    return *out != NULL ? INLAY_OK
                        : inlay_fail(m->diag, INLAY_IO_ERROR, "cannot write %s/%s: %s", m->job->dir, file,
                                     strerror(errno));
}

static inlay_status close_file(maker *m, FILE *f, const char *file)
{
    const bool bad = ferror(f) != 0;

    if (fclose(f) != 0 || bad)
        return inlay_fail(m->diag, INLAY_IO_ERROR, "cannot write %s/%s: %s", m->job->dir, file, strerror(errno));
    return INLAY_OK;
}

/* The constants as bytes in an object, by the assembler's .incbin. */
static inlay_status write_assembly(maker *m)
{
    inlay_status status;
    FILE *f;

    INLAY_TRY(write_file(m, "data.s", &f));
    for (int i = 0; i < 2; i++)
        (void)fprintf(f, "    .section .rodata.%s,\"a\"\n    .balign 64\n    .globl %s_%s\n    .hidden %s_%s\n%s_%s:\n"
                         "    .incbin \"%s/%s.bin\"\n    .zero 64\n",
                      i == 0 ? "data" : "packs", m->n.name, i == 0 ? "data" : "packs", m->n.name,
                      i == 0 ? "data" : "packs", m->n.name, i == 0 ? "data" : "packs", m->job->dir,
                      i == 0 ? "data" : "packs");
    (void)fprintf(f, "    .section .note.GNU-stack,\"\",%%progbits\n");
    status = close_file(m, f, "data.s");
done:
    return status;
}

static inlay_status write_sources(maker *m, bool first)
{
    char header[160];
    FILE *f = NULL, *data = NULL;
    inlay_status status;

    m->f.first = first;
    (void)snprintf(header, sizeof header, "%.120s.h", m->n.name);
    INLAY_TRY(write_file(m, header, &f));
    status = bundle_emit_header(f, m->c, &m->n, &m->f, m->diag);
    if (status != INLAY_OK) {
        (void)fclose(f);
        goto done;
    }
    INLAY_TRY(close_file(m, f, header));
    INLAY_TRY(write_file(m, "model.c", &f));
    status = write_file(m, "data.bin", &data);
    if (status != INLAY_OK) {
        (void)fclose(f);
        goto done;
    }
    status = bundle_emit_source(f, data, m->c, &m->n, &m->f, m->diag);
    m->job->data_bytes = m->f.packs_bytes + (uint64_t)ftell(data);
    INLAY_TRY(close_file(m, f, "model.c"));
    INLAY_TRY(close_file(m, data, "data.bin"));
    INLAY_TRY(write_file(m, "main.c", &f));
    if (first)
        (void)fprintf(f, "#include \"bundle.h\"\nextern const bundle_model %s_model;\n"
                         "int bundle_prepare(const bundle_model *m, const char *path);\n"
                         "int main(int argc, char **argv)\n{\n"
                         "    return argc == 2 ? bundle_prepare(&%s_model, argv[1]) : 2;\n}\n", m->n.name, m->n.name);
    else
        (void)fprintf(f, "#include \"bundle.h\"\nextern const bundle_model %s_model;\nint main(int argc, char **argv)\n"
                         "{\n    return bundle_main(&%s_model, \"%s\", argc, argv);\n}\n", m->n.name, m->n.name,
                      m->n.name);
    INLAY_TRY(close_file(m, f, "main.c"));
    if (first) {
        INLAY_TRY(write_file(m, "packs.bin", &f));
        INLAY_TRY(close_file(m, f, "packs.bin"));
    }
    status = write_assembly(m);
done:
    return status;
}

/* Does a step of that provider run the operator? */
static bool has_operator(const maker *m, const char *who, const char *op)
{
    for (uint32_t i = 0; i < m->c->step_count; i++) {
        const bundle_do *d = &m->c->steps[i];
        graph_node *const *nodes = d->what == DO_RUN ? m->c->parts[d->part].p->graph->nodes : NULL;

        if (nodes == NULL || strcmp(d->step->provider->name, who) != 0)
            continue;
        for (uint32_t k = 0; k < d->step->region->node_count; k++)
            if (strcmp(nodes[d->step->region->nodes[k]]->info.op_type.data, op) == 0)
                return true;
    }
    return false;
}

static bundle_part_of *find_part(const maker *m, const char *name)
{
    for (uint32_t i = 0; i < m->n.part_count; i++)
        if (strcmp(m->n.parts[i].name, name) == 0)
            return &m->n.parts[i];
    return NULL;
}

/* Are all families of "a+b" needed? */
static bool has_families(const maker *m, char *word)
{
    char *rest = NULL;

    for (const char *name = strtok_r(word, "+", &rest); name != NULL; name = strtok_r(NULL, "+", &rest)) {
        const bundle_part_of *p = find_part(m, name);

        if (p == NULL || !p->needed)
            return false;
    }
    return true;
}

/* One line of parts.txt: the part, and what it depends on. */
static bool read_part(maker *m, char *line)
{
    char *rest = NULL;
    const char *kind = strtok_r(line, " \n", &rest), *name = strtok_r(NULL, " \n", &rest);
    bundle_part_of *p = name != NULL ? find_part(m, name) : NULL;

    if (name == NULL)
        return true;
    if (p == NULL) {
        if (m->n.part_count == MOST_PARTS)
            return false;
        p = &m->n.parts[m->n.part_count++];
        (void)snprintf(p->name, sizeof p->name, "%s", name);
        p->kind = strcmp(kind, "table") == 0    ? PART_TABLE
                  : strcmp(kind, "family") == 0 ? PART_FAMILY
                  : strcmp(kind, "set") == 0    ? PART_SET
                  : kind[0] == 'b'              ? PART_BASELINE
                  : kind[0] == 'l'              ? PART_LEVEL
                                                : PART_FUNCTION;
        p->needed = p->kind == PART_BASELINE && !m->n.has_onednn && strcmp(name, "rows_c") == 0;
    }
    for (char *word = strtok_r(NULL, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) {
        p->needed |= p->kind == PART_SET ? has_families(m, word)
                                         : has_operator(m, p->kind == PART_TABLE ? "reference" : "onednn", word);
    }
    return true;
}

/* Which parts there are, and which the operators need; what functions are needed shows later. */
static inlay_status find_needs(maker *m)
{
    char path[PATH_MAX + 32], line[512];
    bool good = true;
    FILE *f;

    for (uint32_t i = 0; i < m->c->step_count; i++) {
        if (m->c->steps[i].what != DO_RUN)
            continue;
        m->n.has_onednn |= strcmp(m->c->steps[i].step->provider->name, "onednn") == 0;
        m->n.has_reference |= strcmp(m->c->steps[i].step->provider->name, "reference") == 0;
    }
    m->n.parts = arena_array(&m->c->a, MOST_PARTS, sizeof *m->n.parts);
    if (m->n.parts == NULL)
        return inlay_fail(m->diag, INLAY_OUT_OF_MEMORY, "no memory");
    (void)snprintf(path, sizeof path, "%s/parts.txt", m->parts);
    f = fopen(path, "r");
    if (f == NULL)
        return inlay_fail(m->diag, INLAY_IO_ERROR, "cannot read %s: %s", path, strerror(errno));
    while (good && fgets(line, sizeof line, f) != NULL)
        good = read_part(m, line);
    (void)fclose(f);
    return good ? INLAY_OK : inlay_fail(m->diag, INLAY_INTERNAL, "%s has too many parts", path);
}

/* ------------------------------------------------------------------ compiling and linking */

static inlay_status compile(maker *m, const char *source, const char *object)
{
    char *include = arena_format(&m->c->a, "-I%s/include", m->parts), *own = arena_format(&m->c->a, "-I%s", m->job->dir);
    char *in = format(m, m->job->dir, source), *out = format(m, m->job->dir, object);
    char *argv[] = { (char *)(uintptr_t)compiler(m), (char *)"-c", (char *)"-O1", (char *)"-fPIC",
                     (char *)"-fvisibility=hidden", (char *)"-ffunction-sections", (char *)"-fno-asynchronous-unwind-tables",
                     own, include, in, (char *)"-o", out, NULL };
    int code;

    if (include == NULL || own == NULL || in == NULL || out == NULL)
        return inlay_fail(m->diag, INLAY_OUT_OF_MEMORY, "no memory");
    code = run(argv, m->log);
    return code == 0 ? INLAY_OK : failed(m, "compiling the bundle", argv[0], code);
}

static const char *const wraps[] = { "malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign" };

/* Names that a program for AVX2 is without become 0, so that the linker does not look for them. */
static uint32_t leave_out(maker *m, char **argv, uint32_t n)
{
    for (uint32_t i = 0; m->n.isa != NULL && i < m->n.part_count && n < MOST_ARGS / 2; i++)
        if (m->n.parts[i].kind == PART_LEVEL)
            argv[n++] = arena_format(&m->c->a, "-Wl,--defsym=%s=0", m->n.parts[i].name);
    return n;
}

static inlay_status link_program(maker *m, const char *output)
{
    char *argv[MOST_ARGS];
    uint32_t n = 0;
    int code;

    argv[n++] = (char *)(uintptr_t)compiler(m);
    argv[n++] = (char *)"-static";
    argv[n++] = (char *)"-no-pie";
    argv[n++] = (char *)"-Wl,-z,norelro";
    argv[n++] = (char *)"-o";
    argv[n++] = (char *)(uintptr_t)output;
    argv[n++] = (char *)"-Wl,--gc-sections";
    argv[n++] = (char *)"-Wl,--build-id=none";
    argv[n++] = (char *)"-s";
    n = leave_out(m, argv, n);
    for (size_t i = 0; i < sizeof wraps / sizeof wraps[0]; i++)
        argv[n++] = arena_format(&m->c->a, "-Wl,--wrap=%s", wraps[i]);
    argv[n++] = format(m, m->job->dir, "main.o");
    argv[n++] = format(m, m->job->dir, "model.o");
    argv[n++] = format(m, m->job->dir, "data.o");
    argv[n++] = format(m, m->parts, "libinlay_bundle.a");
    argv[n++] = (char *)"-lm";
    argv[n] = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (argv[i] == NULL)
            return inlay_fail(m->diag, INLAY_OUT_OF_MEMORY, "no memory");
    code = run(argv, m->log);
    return code == 0 ? INLAY_OK : failed(m, "linking the bundle", argv[0], code);
}

/* A tool of the target's binutils. */
static char *tool_of(maker *m, const char *tool)
{
    return is_native(m) ? arena_string(&m->c->a, tool) : arena_format(&m->c->a, "%s-%s", m->job->target, tool);
}

static const char *const functions[] = { "start", "start_in", "run", "run_in", "error" };
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* Everything in one object, with the bundle's functions alone to be seen. */
static inlay_status link_object(maker *m, const char *output)
{
    char *argv[MOST_ARGS], *hide[FUNCTIONS + 4];
    uint32_t n = 0, h = 0;
    int code;

    argv[n++] = (char *)(uintptr_t)compiler(m);
    argv[n++] = (char *)"-r";
    argv[n++] = (char *)"-nostdlib";
    argv[n++] = (char *)"-o";
    argv[n++] = (char *)(uintptr_t)output;
    argv[n++] = (char *)"-Wl,--gc-sections";
    n = leave_out(m, argv, n);
    hide[h++] = tool_of(m, "objcopy");
    for (size_t i = 0; i < FUNCTIONS; i++) {
        argv[n++] = arena_format(&m->c->a, "-Wl,-u,%s_%s", m->n.name, functions[i]);
        hide[h++] = arena_format(&m->c->a, "--keep-global-symbol=%s_%s", m->n.name, functions[i]);
    }
    for (size_t i = 0; i < sizeof wraps / sizeof wraps[0]; i++)
        argv[n++] = arena_format(&m->c->a, "-Wl,--wrap=%s", wraps[i]);
    argv[n++] = format(m, m->job->dir, "model.o");
    argv[n++] = format(m, m->job->dir, "data.o");
    argv[n++] = format(m, m->parts, "libinlay_bundle.a");
    argv[n] = NULL;
    hide[h++] = (char *)(uintptr_t)output;
    hide[h] = NULL;
    for (uint32_t i = 0; i < n + h; i++)
        if ((i < n ? argv[i] : hide[i - n]) == NULL)
            return inlay_fail(m->diag, INLAY_OUT_OF_MEMORY, "no memory");
    code = run(argv, m->log);
    if (code != 0)
        return failed(m, "linking the object", argv[0], code);
    code = run(hide, m->log);
    return code == 0 ? INLAY_OK : failed(m, "hiding the object's symbols", hide[0], code);
}

static inlay_status link_library(maker *m, const char *output)
{
    char *object = arena_format(&m->c->a, "%s/%s.o", m->job->dir, m->n.name);
    char *argv[] = { tool_of(m, "ar"), (char *)"rcs", (char *)(uintptr_t)output, object, NULL };
    inlay_status status;
    int code;

    if (object == NULL || argv[0] == NULL)
        return inlay_fail(m->diag, INLAY_OUT_OF_MEMORY, "no memory");
    INLAY_TRY(link_object(m, object));
    (void)remove(output);
    code = run(argv, m->log);
    if (code != 0)
        status = failed(m, "writing the library", argv[0], code);
done:
    return status;
}

/* The header goes beside the output: what stands before its last dot, and ".h". */
static inlay_status publish_header(maker *m)
{
    const char *slash = strrchr(m->job->output, '/'), *dot = strrchr(m->job->output, '.');
    const int stem = dot != NULL && (slash == NULL || dot > slash) ? (int)(dot - m->job->output)
                                                                   : (int)strlen(m->job->output);
    char *path = arena_format(&m->c->a, "%.*s.h", stem, m->job->output);
    inlay_status status;
    FILE *f;

    f = path != NULL ? fopen(path, "wb") : NULL;
    if (f == NULL)
        return inlay_fail(m->diag, INLAY_IO_ERROR, "cannot write %s: %s", path != NULL ? path : "the header",
                          strerror(errno));
    status = bundle_emit_header(f, m->c, &m->n, &m->f, m->diag);
    if (fclose(f) != 0 && status == INLAY_OK)
        status = inlay_fail(m->diag, INLAY_IO_ERROR, "cannot write %s: %s", path, strerror(errno));
    return status;
}

/* ------------------------------------------------------------------ the first run */

static int by_key(const void *a, const void *b)
{
    const bundle_pack_entry *x = a, *y = b;

    if (x->key[0] != y->key[0])
        return x->key[0] < y->key[0] ? -1 : 1;
    return x->key[1] < y->key[1] ? -1 : x->key[1] > y->key[1];
}

/* What a first run wrote. */
typedef struct pack_account {
    unsigned char *bytes; /* all of it, the heap's */
    uint64_t size;
    uint64_t level, arena_bytes;
    const unsigned char *fates, *packs, *end;
} pack_account;

static bool read_account(maker *m, uint32_t level, pack_account *out)
{
    char *path = arena_format(&m->c->a, "%s/account.%u", m->job->dir, level);
    FILE *f = path != NULL ? fopen(path, "rb") : NULL;
    uint64_t fates = 0;
    struct stat st;
    bool good = f != NULL && fstat(fileno(f), &st) == 0 && st.st_size >= 16;

    for (uint32_t i = 0; i < m->c->step_count; i++)
        if (m->c->steps[i].what == DO_RUN)
            fates += m->f.values[m->c->steps[i].part];
    out->size = good ? (uint64_t)st.st_size : 0;
    out->bytes = good ? malloc((size_t)out->size) : NULL;
    good = out->bytes != NULL && out->size >= 16 + fates && fread(out->bytes, 1, (size_t)out->size, f) == out->size;
    if (f != NULL)
        (void)fclose(f);
    if (!good)
        return false;
    memcpy(&out->level, out->bytes, 8);
    memcpy(&out->arena_bytes, out->bytes + 8, 8);
    out->fates = out->bytes + 16;
    out->packs = out->fates + fates;
    out->end = out->bytes + out->size;
    return true;
}

/* Regions come in the order of their steps: a constant is left out where all who read it packed it. */
static bool find_unread(maker *m, const unsigned char *fates)
{
    const bool first = m->f.unread == NULL;

    if (first)
        m->f.unread = arena_array(&m->c->a, (size_t)m->c->part_count + 1, sizeof *m->f.unread);
    for (uint32_t i = 0; first && m->f.unread != NULL && i < m->c->part_count; i++) {
        m->f.unread[i] = arena_alloc(&m->c->a, (size_t)m->c->parts[i].p->graph->value_count + 1);
        if (m->f.unread[i] == NULL)
            return false;
    }
    for (uint32_t i = 0; m->f.unread != NULL && i < m->c->step_count; i++) {
        const bundle_do *d = &m->c->steps[i];
        const graph *g = d->what == DO_RUN ? m->c->parts[d->part].p->graph : NULL;

        for (uint32_t k = 0; g != NULL && k < d->step->region->node_count; k++) {
            const inlay_node_info *n = &g->nodes[d->step->region->nodes[k]]->info;

            for (uint32_t x = 0; x < n->input_count; x++)
                if (n->inputs[x] != INLAY_NONE)
                    m->f.unread[d->part][n->inputs[x]] |=
                        fates[m->f.value[d->part][n->inputs[x]]] == INLAY_CONST_PACKED ? 1 : 2;
        }
        fates += g != NULL ? m->f.values[d->part] : 0;
    }
    return m->f.unread != NULL;
}

/* Adds the packs of an account to packs.bin and the table; what is there already is not written again. */
static bool add_packs(maker *m, const pack_account *a, FILE *to, uint64_t *at, uint32_t *capacity)
{
    static const char zeros[64];
    uint64_t head[3];

    for (const unsigned char *p = a->packs; p < a->end; p += head[2]) {
        bundle_pack_entry entry;
        uint32_t same = 0;

        if ((uint64_t)(a->end - p) < sizeof head)
            return false;
        memcpy(head, p, sizeof head);
        p += sizeof head;
        if ((uint64_t)(a->end - p) < head[2])
            return false;
        entry = (bundle_pack_entry){ { head[0] ^ (a->level & m->f.packs_levels), head[1] }, head[2], *at,
                                     hash_blocks(p, (size_t)head[2], 0) };
        while (same < m->f.pack_count && (m->f.packs[same].bytes != entry.bytes || m->f.packs[same].hash != entry.hash))
            same++;
        if (m->f.pack_count == *capacity) {
            bundle_pack_entry *more = arena_array(&m->c->a, *capacity = *capacity * 2 + 64, sizeof *more);

            if (more == NULL)
                return false;
            if (m->f.pack_count > 0)
                memcpy(more, m->f.packs, m->f.pack_count * sizeof *more);
            m->f.packs = more;
        }
        if (same < m->f.pack_count) {
            entry.offset = m->f.packs[same].offset;
        } else {
            const uint64_t pad = (64 - head[2] % 64) % 64;

            if (fwrite(p, 1, (size_t)head[2], to) != head[2] || fwrite(zeros, 1, (size_t)pad, to) != pad)
                return false;
            *at += head[2] + pad;
        }
        m->f.packs[m->f.pack_count++] = entry;
    }
    return true;
}

/* Packs that are the same at every level count for all of them, the others for their own. What they were made of is left
 * out, but where CPUs differ in products of bytes, too, which this one cannot try. */
static inlay_status read_accounts(maker *m, uint32_t count)
{
    pack_account list[2] = { { 0 }, { 0 } };
    const bundle_part_of *bytes;
    uint64_t at = 0;
    uint32_t capacity = 0;
    FILE *to = NULL;
    inlay_status status;
    bool good = true;

    for (uint32_t i = 0; good && i < count; i++) {
        good = read_account(m, i, &list[i]);
        if (good && list[i].arena_bytes > m->f.arena_bytes)
            m->f.arena_bytes = list[i].arena_bytes;
    }
    m->f.arena_bytes = (m->f.arena_bytes + 4095) / 4096 * 4096;
    bytes = find_part(m, "byte_set_of_cpu");
    if (good && count == 2 && (list[0].size != list[1].size ||
                               memcmp(list[0].fates, list[1].fates, (size_t)list[0].size - 16) != 0))
        m->f.packs_levels = bytes != NULL && bytes->needed ? UINT32_MAX : LEVEL_ALONE;
    for (uint32_t i = 0; good && m->f.packs_levels != UINT32_MAX && i < count; i++)
        good = find_unread(m, list[i].fates);
    INLAY_TRY(write_file(m, "packs.bin", &to));
    for (uint32_t i = 0; good && i < (m->f.packs_levels == 0 ? 1 : count); i++)
        good = add_packs(m, &list[i], to, &at, &capacity);
    INLAY_TRY(close_file(m, to, "packs.bin"));
    m->f.packs_bytes = at;
    m->job->pack_count = m->f.pack_count;
    if (m->f.pack_count > 0)
        qsort(m->f.packs, m->f.pack_count, sizeof *m->f.packs, by_key);
    if (!good)
        status = inlay_fail(m->diag, INLAY_IO_ERROR, "the bundle's first run left no readable account");
done:
    for (uint32_t i = 0; i < count; i++)
        free(list[i].bytes);
    return status;
}

/* The program that starts the target's programs; NULL: none is needed. */
static const char *emulator(const maker *m)
{
    return is_native(m) ? NULL : strncmp(m->job->target, "aarch64", 7) == 0 ? "qemu-aarch64" : "false";
}

/* The node that was refused, which may stand in the sentence alone, and its operator. */
static void name_node(maker *m, const char *why)
{
    const char *begin = strstr(why, "node '"), *end = begin != NULL ? strchr(begin + 6, '\'') : NULL;

    if (m->job->node[0] == '\0' && end != NULL)
        (void)snprintf(m->job->node, sizeof m->job->node, "%.*s", (int)(end - begin - 6), begin + 6);
    m->job->op[0] = '\0';
    for (uint32_t p = 0; p < m->c->part_count; p++) {
        const graph *g = m->c->parts[p].p->graph;

        for (uint32_t n = 0; n < g->node_count; n++)
            if (strcmp(g->nodes[n]->info.name.data, m->job->node) == 0)
                (void)snprintf(m->job->op, sizeof m->job->op, "%s", g->nodes[n]->info.op_type.data);
    }
    if (m->job->op[0] == '\0')
        m->job->node[0] = '\0';
}

/* What the program printed when a provider could not compile a region: the node, then why. */
static inlay_status read_refusal(maker *m)
{
    FILE *f = fopen(m->log, "r");
    char why[400] = "";

    if (f != NULL && fgets(m->job->node, sizeof m->job->node, f) != NULL)
        (void)!fgets(why, sizeof why, f);
    if (f != NULL)
        (void)fclose(f);
    m->job->node[strcspn(m->job->node, "\n")] = '\0';
    why[strcspn(why, "\n")] = '\0';
    name_node(m, why);
    return inlay_fail(m->diag, INLAY_UNSUPPORTED, "%s", why);
}

/* A function that was left out is needed. */
static inlay_status read_missed(maker *m, bool *out_again)
{
    bundle_part_of *p;
    char name[80];

    read_log(m->log, "", name, sizeof name);
    p = find_part(m, name);
    if (p == NULL || p->needed)
        return inlay_fail(m->diag, INLAY_INTERNAL, "the bundle asks for '%s', which is nowhere", name);
    p->needed = true;
    *out_again = true;
    return INLAY_OK;
}

/* Levels of instructions that programs choose from; the first is whatever this CPU has. */
static const char *const levels[] = { "auto", "avx2" };

static inlay_status prepare(maker *m, uint32_t level, bool *out_again)
{
    char *started = format(m, m->job->dir, "first");
    char *wrote = arena_format(&m->c->a, "%s/account.%u", m->job->dir, level);
    char *argv[4] = { (char *)(uintptr_t)emulator(m), started, wrote, NULL };
    char **start = argv[0] != NULL ? argv : argv + 1;
    int code;

    if (started == NULL || wrote == NULL)
        return inlay_fail(m->diag, INLAY_OUT_OF_MEMORY, "no memory");
    (void)setenv("INLAY_ISA", levels[level], 1);
    code = run(start, m->log);
    (void)unsetenv("INLAY_ISA");
    m->job->node[0] = '\0';
    if (code == 3)
        return read_refusal(m);
    if (code == MISSED)
        return read_missed(m, out_again);
    if (code == 127 && !is_native(m))
        return INLAY_OK; /* no emulator: it packs when it starts */
    if (code != 0)
        return failed(m, "starting the bundle once", start[0], code);
    m->job->prepared = true;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the whole */

static inlay_status tell(const maker *m, double fraction, const char *what)
{
    if (m->job->progress != NULL && m->job->progress(m->job->user, fraction, what) != 0)
        return inlay_fail(m->diag, INLAY_CANCELLED, "stopped");
    return INLAY_OK;
}

static inlay_status build(maker *m, bool first, const char *output)
{
    inlay_status status;

    INLAY_TRY(write_sources(m, first));
    INLAY_TRY(compile(m, "model.c", "model.o"));
    INLAY_TRY(compile(m, "main.c", "main.o"));
    INLAY_TRY(compile(m, "data.s", "data.o"));
    status = link_program(m, output);
done:
    return status;
}

/* How many levels of instructions the program has to be tried at. */
static uint32_t levels_of(const maker *m)
{
    return is_native(m) && strncmp(m->job->target, "x86_64", 6) == 0 && m->n.isa == NULL ? 2 : 1;
}

/* libmodel.a -> model; "model" where there is no memory. */
static const char *default_name(maker *m)
{
    const char *slash = strrchr(m->job->output, '/'), *base = slash != NULL ? slash + 1 : m->job->output;
    const char *name, *dot = strrchr(base, '.');

    if (m->job->kind == BUNDLE_LIBRARY && strncmp(base, "lib", 3) == 0 && base[3] != '\0' && base[3] != '.')
        base += 3;
    name = arena_string_n(&m->c->a, base, dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base));
    return name != NULL && name[0] != '\0' ? name : "model";
}

inlay_status bundle_make(bundle_job *job, bundle_collection *c, inlay_diag *diag)
{
    maker m = { .job = job, .c = c, .diag = diag, .n = { .isa = job->isa } };
    struct stat st;
    inlay_status status;

    if (!find_parts(job->target, m.parts))
        return inlay_fail(diag, INLAY_NOT_FOUND, "there is no run-time part for target '%s' here (%s/%s)", job->target,
                          INLAY_BUNDLE_FROM_BIN, job->target);
    (void)snprintf(m.log, sizeof m.log, "%s/log", job->dir);
    if (!bundle_name(c, job->name != NULL ? job->name : default_name(&m), &m.n))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    INLAY_TRY(find_needs(&m));
    INLAY_TRY(tell(&m, 0.1, "compiling"));
    INLAY_TRY(build(&m, true, format(&m, job->dir, "first")));
    INLAY_TRY(tell(&m, 0.5, "packing"));
    for (uint32_t level = 0; level < levels_of(&m);) {
        bool again = false;

        INLAY_TRY(prepare(&m, level, &again));
        if (again)
            INLAY_TRY(build(&m, true, format(&m, job->dir, "first")));
        level += !again;
    }
    if (job->prepared)
        INLAY_TRY(read_accounts(&m, levels_of(&m)));
    INLAY_TRY(tell(&m, 0.7, "linking"));
    job->tried = format(&m, job->dir, "whole");
    INLAY_TRY(build(&m, false, job->kind == BUNDLE_PROGRAM ? job->output : job->tried));
    if (job->kind == BUNDLE_PROGRAM)
        job->tried = job->output;
    else
        INLAY_TRY(publish_header(&m));
    if (job->kind == BUNDLE_LIBRARY)
        INLAY_TRY(link_library(&m, job->output));
    if (job->kind == BUNDLE_OBJECT)
        INLAY_TRY(link_object(&m, job->output));
    job->arena_bytes = m.f.arena_bytes;
    job->file_bytes = stat(job->output, &st) == 0 ? (uint64_t)st.st_size : 0;
done:
    return status;
}

inlay_status bundle_try(const bundle_job *job, char *const *inputs, uint32_t count, const char *dir, inlay_diag *diag)
{
    maker m = { .job = (bundle_job *)(uintptr_t)job, .diag = diag };
    char *argv[MOST_ARGS + 8], path[PATH_MAX + 8];
    uint32_t n = 0;
    int code;

    if (count > MOST_ARGS)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "more than %d inputs", MOST_ARGS);
    (void)snprintf(m.log, sizeof m.log, "%s/log", job->dir);
    if (emulator(&m) != NULL)
        argv[n++] = (char *)(uintptr_t)emulator(&m);
    (void)snprintf(path, sizeof path, "%s%s", strchr(job->tried, '/') == NULL ? "./" : "", job->tried);
    argv[n++] = path;
    argv[n++] = (char *)"-o";
    argv[n++] = (char *)(uintptr_t)dir;
    for (uint32_t i = 0; i < count; i++)
        argv[n++] = inputs[i];
    argv[n] = NULL;
    code = run(argv, m.log);
    if (code == 127 && !is_native(&m))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "there is no %s here", argv[0]);
    return code == 0 ? INLAY_OK : failed(&m, "trying the bundle", argv[0], code);
}
