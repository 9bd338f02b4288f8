#include "base/output.h"
#include "bundle/maker.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ARGS = 128 };
#define HEADER "made.h" /* in the job's folder */

/* ------------------------------------------------------------------ sources */

/* The constants as bytes in an object, by the assembler's .incbin. */
static inlay_status write_assembly(struct maker *m)
{
    inlay_status status;
    FILE *f;

    INLAY_TRY(maker_write_file(m, "data.s", &f));
    for (int i = 0; i < 2; i++)
        (void)fprintf(f,
                      "    .section .rodata.%s,\"a\"\n    .balign 64\n    .globl %s_%s\n    .hidden %s_%s\n%s_%s:\n"
                      "    .incbin \"%s/%s.bin\"\n    .zero 64\n",
                      i == 0 ? "data" : "packs", m->n.name, i == 0 ? "data" : "packs", m->n.name,
                      i == 0 ? "data" : "packs", m->n.name, i == 0 ? "data" : "packs", m->job->dir,
                      i == 0 ? "data" : "packs");
    (void)fprintf(f, "    .section .note.GNU-stack,\"\",%%progbits\n");
    status = maker_close_file(m, f, "data.s");
done:
    return status;
}

/* prepares: the main program is that of first runs. */
static inlay_status write_sources(struct maker *m, bool first, bool prepares)
{
    FILE *f = NULL, *data = NULL;
    inlay_status status;

    m->f.first = first;
    INLAY_TRY(maker_write_file(m, "app.h", &f));
    status = bundle_emit_header(f, m->c, &m->n, m->n.name, &m->f, m->diag);
    if (status != INLAY_OK) {
        (void)fclose(f);
        goto done;
    }
    INLAY_TRY(maker_close_file(m, f, "app.h"));
    INLAY_TRY(maker_write_file(m, "model.c", &f));
    status = maker_write_file(m, "data.bin", &data);
    if (status != INLAY_OK) {
        (void)fclose(f);
        goto done;
    }
    status = bundle_emit_source(f, data, m->c, &m->n, &m->f, m->diag);
    if (status != INLAY_OK) {
        (void)fclose(f);
        (void)fclose(data);
        goto done;
    }
    m->job->data_bytes = m->f.packs_bytes + (uint64_t)ftell(data);
    INLAY_TRY(maker_close_file(m, f, "model.c"));
    INLAY_TRY(maker_close_file(m, data, "data.bin"));
    INLAY_TRY(maker_write_file(m, "main.c", &f));
    if (prepares)
        (void)fprintf(f,
                      "#include \"bundle.h\"\nextern const bundle_model %s_model;\n"
                      "int bundle_prepare(const bundle_model *m, const char *path, int plain);\n"
                      "int main(int argc, char **argv)\n{\n"
                      "    return argc == 3 ? bundle_prepare(&%s_model, argv[1], *argv[2] == 'p') : 2;\n}\n",
                      m->n.name, m->n.name);
    else
        (void)fprintf(f,
                      "#include \"bundle.h\"\nextern const bundle_model %s_model;\nint main(int argc, char **argv)\n"
                      "{\n    return bundle_main(&%s_model, \"%s\", argc, argv);\n}\n",
                      m->n.name, m->n.name, m->n.api);
    INLAY_TRY(maker_close_file(m, f, "main.c"));
    if (first) {
        INLAY_TRY(maker_write_file(m, "packs.bin", &f));
        INLAY_TRY(maker_close_file(m, f, "packs.bin"));
    }
    status = write_assembly(m);
done:
    return status;
}

/* ------------------------------------------------------------------ compiling and linking */

static inlay_status compile(struct maker *m, const char *source, const char *object)
{
    char *include = arena_format(&m->c->a, "-I%s/include", m->parts),
         *own = arena_format(&m->c->a, "-I%s", m->job->dir);
    char *in = maker_path(m, m->job->dir, source), *out = maker_path(m, m->job->dir, object);
    char *argv[] = { (char *)(uintptr_t)maker_compiler(m),
                     (char *)"-c",
                     (char *)"-O1",
                     (char *)"-fPIC",
                     (char *)"-fvisibility=hidden",
                     (char *)"-ffunction-sections",
                     (char *)"-fno-asynchronous-unwind-tables",
                     own,
                     include,
                     in,
                     (char *)"-o",
                     out,
                     NULL };
    int code;

    if (include == NULL || own == NULL || in == NULL || out == NULL)
        return no_memory(m->diag, "to write the bundle");
    code = maker_run(argv, m->log);
    return code == 0 ? INLAY_OK : maker_failed(m, "compiling the bundle", argv[0], code);
}

static const char *const wraps[] = { "malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign" };

/* Names that a program for AVX2 is without become 0, so that the linker does not look for them. */
static uint32_t leave_out(struct maker *m, char **argv, uint32_t n)
{
    for (uint32_t i = 0; m->n.isa != NULL && i < m->n.part_count && n < MOST_ARGS / 2; i++)
        if (m->n.parts[i].kind == PART_LEVEL)
            argv[n++] = arena_format(&m->c->a, "-Wl,--defsym=%s=0", m->n.parts[i].name);
    return n;
}

static inlay_status link_program(struct maker *m, bool first, const char *output)
{
    char *argv[MOST_ARGS];
    uint32_t n = 0;
    int code;

    argv[n++] = (char *)(uintptr_t)maker_compiler(m);
    argv[n++] = (char *)"-static";
    argv[n++] = (char *)"-no-pie";
    argv[n++] = (char *)"-o";
    argv[n++] = (char *)(uintptr_t)output;
    argv[n++] = (char *)"-Wl,--gc-sections";
    argv[n++] = (char *)"-Wl,--build-id=none";
    argv[n++] = (char *)"-s";
    n = leave_out(m, argv, n);
    for (size_t i = 0; i < sizeof wraps / sizeof wraps[0]; i++)
        argv[n++] = arena_format(&m->c->a, "-Wl,--wrap=%s", wraps[i]);
    argv[n++] = maker_path(m, m->job->dir, "main.o");
    argv[n++] = maker_path(m, m->job->dir, "model.o");
    argv[n++] = maker_path(m, m->job->dir, "data.o");
    if (first)
        argv[n++] = maker_path(m, m->job->dir, "stubs.o");
    argv[n++] = maker_path(m, m->parts, "libinlay_bundle.a");
    argv[n++] = (char *)"-lm";
    argv[n] = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (argv[i] == NULL)
            return no_memory(m->diag, "to write the bundle");
    code = maker_run(argv, m->log);
    return code == 0 ? INLAY_OK : maker_failed(m, "linking the bundle", argv[0], code);
}

static const char *const functions[] = { "start", "start_in", "run", "run_in", "error" };
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* Everything in one object, with the bundle's functions alone to be seen, by the names that the user chose: only now,
 * for until here a function of the run-time part may be called so. */
static inlay_status link_object(struct maker *m, const char *output)
{
    char *argv[MOST_ARGS], *hide[FUNCTIONS + 4], *rename[FUNCTIONS + 4];
    uint32_t n = 0, h = 0, r = 0;
    int code;

    argv[n++] = (char *)(uintptr_t)maker_compiler(m);
    argv[n++] = (char *)"-r";
    argv[n++] = (char *)"-nostdlib";
    argv[n++] = (char *)"-o";
    argv[n++] = (char *)(uintptr_t)output;
    argv[n++] = (char *)"-Wl,--gc-sections";
    n = leave_out(m, argv, n);
    hide[h++] = rename[r++] = maker_tool(m, "objcopy");
    for (size_t i = 0; i < FUNCTIONS; i++) {
        argv[n++] = arena_format(&m->c->a, "-Wl,-u,%s_%s", m->n.name, functions[i]);
        hide[h++] = arena_format(&m->c->a, "--keep-global-symbol=%s_%s", m->n.name, functions[i]);
        rename[r++] =
            arena_format(&m->c->a, "--redefine-sym=%s_%s=%s_%s", m->n.name, functions[i], m->n.api, functions[i]);
    }
    for (size_t i = 0; i < sizeof wraps / sizeof wraps[0]; i++)
        argv[n++] = arena_format(&m->c->a, "-Wl,--wrap=%s", wraps[i]);
    argv[n++] = maker_path(m, m->job->dir, "model.o");
    argv[n++] = maker_path(m, m->job->dir, "data.o");
    argv[n++] = maker_path(m, m->parts, "libinlay_bundle.a");
    argv[n] = NULL;
    hide[h++] = rename[r++] = (char *)(uintptr_t)output;
    hide[h] = rename[r] = NULL;
    for (uint32_t i = 0; i < n + h + r; i++)
        if ((i < n ? argv[i] : i < n + h ? hide[i - n] : rename[i - n - h]) == NULL)
            return no_memory(m->diag, "to write the bundle");
    code = maker_run(argv, m->log);
    if (code != 0)
        return maker_failed(m, "linking the object", argv[0], code);
    code = maker_run(hide, m->log);
    if (code == 0)
        code = maker_run(rename, m->log);
    return code == 0 ? INLAY_OK : maker_failed(m, "hiding the object's symbols", hide[0], code);
}

static inlay_status link_library(struct maker *m, const char *output)
{
    char *object = arena_format(&m->c->a, "%s/whole_%s.o", m->job->dir, m->n.api); /* no name of the sources */
    char *argv[] = { maker_tool(m, "ar"), (char *)"rcs", (char *)(uintptr_t)output, object, NULL };
    inlay_status status;
    int code;

    if (object == NULL || argv[0] == NULL)
        return no_memory(m->diag, "to write the bundle");
    INLAY_TRY(link_object(m, object));
    code = maker_run(argv, m->log);
    if (code != 0)
        status = maker_failed(m, "writing the library", argv[0], code);
done:
    return status;
}

/* The header goes beside the output: what stands before its last dot, and ".h". */
static char *header_path(struct arena *a, const bundle_job *job)
{
    const char *slash = strrchr(job->output, '/'), *dot = strrchr(job->output, '.');
    const int stem =
        dot != NULL && (slash == NULL || dot > slash) ? (int)(dot - job->output) : (int)strlen(job->output);

    return arena_format(a, "%.*s.h", stem, job->output);
}

static inlay_status write_header(struct maker *m)
{
    inlay_status status;
    FILE *f;

    INLAY_TRY(maker_write_file(m, HEADER, &f));
    status = bundle_emit_header(f, m->c, &m->n, m->n.api, &m->f, m->diag);
    if (status != INLAY_OK)
        (void)fclose(f);
    else
        status = maker_close_file(m, f, HEADER);
done:
    return status;
}

inlay_status bundle_publish(const bundle_job *job, inlay_diag *diag)
{
    output_file made = { .fd = -1 }, header = { .fd = -1 };
    char from[PATH_MAX], target[PATH_MAX];
    struct arena a = { 0 };
    char *path = header_path(&a, job);
    inlay_status status = INLAY_OK;

    if (path == NULL || (size_t)snprintf(from, sizeof from, "%s/" HEADER, job->dir) >= sizeof from)
        status = no_memory(diag, "to write the bundle");
    else if (job->kind != BUNDLE_PROGRAM && !output_target(job->output, target))
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "%.200s is no regular file: there is no place beside it for the header", job->output);
    INLAY_TRY(status);
    INLAY_TRY(output_take(&made, job->output, job->made, diag));
    if (job->kind != BUNDLE_PROGRAM)
        INLAY_TRY(output_take(&header, path, from, diag));
    status = output_commit(&made, job->kind != BUNDLE_PROGRAM ? &header : NULL, diag);
done:
    output_drop(&made);
    output_drop(&header);
    arena_deinit(&a);
    return status;
}

/* ------------------------------------------------------------------ the whole */

static inlay_status tell(const struct maker *m, double fraction, const char *what)
{
    if (m->job->progress != NULL && m->job->progress(m->job->user, fraction, what) != 0)
        return inlay_fail(m->diag, INLAY_CANCELLED, "stopped");
    return INLAY_OK;
}

static inlay_status build(struct maker *m, bool first, bool prepares, const char *output)
{
    inlay_status status;

    INLAY_TRY(write_sources(m, first, prepares));
    INLAY_TRY(compile(m, "model.c", "model.o"));
    INLAY_TRY(compile(m, "main.c", "main.o"));
    INLAY_TRY(compile(m, "data.s", "data.o"));
    if (first) {
        INLAY_TRY(maker_write_stubs(m));
        INLAY_TRY(compile(m, "stubs.s", "stubs.o"));
    }
    status = link_program(m, first, output);
done:
    return status;
}

/* The first program again, with other parts. */
static inlay_status build_again(struct maker *m, const char *output)
{
    inlay_status status;

    INLAY_TRY(write_sources(m, true, true));
    INLAY_TRY(compile(m, "model.c", "model.o"));
    INLAY_TRY(maker_write_stubs(m));
    INLAY_TRY(compile(m, "stubs.s", "stubs.o"));
    status = link_program(m, true, output);
done:
    return status;
}

/* libmodel.a -> model; "model" where there is no memory. */
static const char *default_name(struct maker *m)
{
    const char *slash = strrchr(m->job->output, '/'), *base = slash != NULL ? slash + 1 : m->job->output;
    const char *name, *dot = strrchr(base, '.');

    if (m->job->kind == BUNDLE_LIBRARY && strncmp(base, "lib", 3) == 0 && base[3] != '\0' && base[3] != '.')
        base += 3;
    name = arena_string_n(&m->c->a, base, dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base));
    return name != NULL && name[0] != '\0' ? name : "model";
}

/* With packs in the program a start takes less of the arena than the first runs did: how much, runs of it tell. */
static inlay_status measure_arena(struct maker *m)
{
    const uint32_t count = maker_level_count(m);
    inlay_status status;

    if (m->job->pack_count == 0)
        return INLAY_OK;
    INLAY_TRY(build(m, false, true, maker_path(m, m->job->dir, "measured")));
    for (uint32_t level = 0; level < count; level++)
        INLAY_TRY(maker_first_run(m, "measured", level, &(bool){ false }));
    status = maker_read_arena(m, count);
done:
    return status;
}

inlay_status bundle_make(bundle_job *job, bundle_collection *c, inlay_diag *diag)
{
    const bool native = job->isa != NULL && strcmp(job->isa, "native") == 0;
    struct maker m = { .job = job, .c = c, .diag = diag, .native = native, .n = { .isa = native ? NULL : job->isa } };
    struct stat st;
    inlay_status status;

    if (!maker_find_parts(job->target, m.parts))
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "there is no run-time part for target '%s' in %s, seen from this program: it "
                          "comes with libinlay-dev, and for arm64 host/tools/bundle/runtime/cross.sh makes it",
                          job->target, INLAY_BUNDLE_FROM_BIN);
    if (native && !maker_is_native(&m))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "--for native is for this machine's CPU, and target '%s' is not", job->target);
    (void)snprintf(m.log, sizeof m.log, "%s/log", job->dir);
    job->pack_count = job->start_count = 0;
    job->memory_bytes = 0;
    job->prepared = job->declined = false;
    if (!bundle_name(c, job->name != NULL ? job->name : default_name(&m), &m.n))
        return no_memory(diag, "to write the bundle");
    INLAY_TRY(maker_find_needs(&m));
    INLAY_TRY(tell(&m, 0.1, "compiling"));
    INLAY_TRY(build(&m, true, true, maker_path(&m, job->dir, "first")));
    INLAY_TRY(tell(&m, 0.5, "packing"));
    for (uint32_t level = 0; level < maker_level_count(&m);) {
        bool again = false;

        INLAY_TRY(maker_first_run(&m, "first", level, &again));
        if (again)
            INLAY_TRY(build_again(&m, maker_path(&m, job->dir, "first")));
        level += !again;
    }
    if (job->prepared)
        INLAY_TRY(maker_read_accounts(&m, maker_level_count(&m)));
    else
        maker_keep_untried(&m, NULL, 0);
    if (job->prepared && job->accept != NULL && !job->accept(job->user)) {
        job->declined = true;
        return inlay_fail(diag, INLAY_UNSUPPORTED, "weights of %llu bytes in memory were declined",
                          (unsigned long long)job->memory_bytes);
    }
    INLAY_TRY(tell(&m, 0.7, "linking"));
    INLAY_TRY(measure_arena(&m));
    job->tried = maker_path(&m, job->dir, "whole");
    INLAY_TRY(build(&m, false, false, job->tried));
    job->made = job->tried;
    if (job->kind != BUNDLE_PROGRAM) {
        job->made = maker_path(&m, job->dir, "made");
        INLAY_TRY(write_header(&m));
    }
    if (job->kind == BUNDLE_LIBRARY)
        INLAY_TRY(link_library(&m, job->made));
    if (job->kind == BUNDLE_OBJECT)
        INLAY_TRY(link_object(&m, job->made));
    job->arena_bytes = m.f.arena_bytes;
    job->file_bytes = stat(job->made, &st) == 0 ? (uint64_t)st.st_size : 0;
done:
    return status;
}

inlay_status bundle_try(const bundle_job *job, char *const *inputs, uint32_t count, const char *dir, inlay_diag *diag)
{
    struct maker m = { .job = (bundle_job *)(uintptr_t)job, .diag = diag };
    char *argv[MOST_ARGS + 8], path[PATH_MAX + 8];
    uint32_t n = 0;
    int code;

    if (count > MOST_ARGS)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "more than %d inputs", MOST_ARGS);
    (void)snprintf(m.log, sizeof m.log, "%s/log", job->dir);
    if (maker_emulator(&m) != NULL)
        argv[n++] = (char *)(uintptr_t)maker_emulator(&m);
    (void)snprintf(path, sizeof path, "%s%s", strchr(job->tried, '/') == NULL ? "./" : "", job->tried);
    argv[n++] = path;
    argv[n++] = (char *)"-o";
    argv[n++] = (char *)(uintptr_t)dir;
    for (uint32_t i = 0; i < count; i++)
        argv[n++] = inputs[i];
    argv[n] = NULL;
    code = maker_run(argv, m.log);
    if (code == 127 && !maker_is_native(&m))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "there is no %s here", argv[0]);
    return code == 0 ? INLAY_OK : maker_failed(&m, "trying the bundle", argv[0], code);
}
