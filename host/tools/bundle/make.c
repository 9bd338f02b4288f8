#include "base/output.h"
#include "base/path.h"
#include "bundle/maker.h"
#include "inlay/check.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ARGS = 128 };
#define HEADER "made.h" /* in the job's folder */

/* Writes the assembly that includes the constants and packed weights as bytes (.incbin). */
static inlay_status write_assembly(struct maker *maker, bool prepares)
{
    inlay_status status;
    FILE *file;

    if (maker_is_wasm(maker))
        return maker_write_wasm_data(maker, maker->job->separate_weights && !prepares);
    INLAY_TRY(maker_write_file(maker, "data.s", &file));
    for (int i = 0; i < 2; i++)
        (void)fprintf(file,
                      "    .section .rodata.%s,\"a\"\n    .balign 64\n    .globl %s_%s\n    .hidden %s_%s\n%s_%s:\n"
                      "    .incbin \"%s/%s.bin\"\n    .zero 64\n",
                      i == 0 ? "data" : "packs", maker->names.name, i == 0 ? "data" : "packs", maker->names.name,
                      i == 0 ? "data" : "packs", maker->names.name, i == 0 ? "data" : "packs", maker->job->dir,
                      i == 0 ? "data" : "packs");
    (void)fprintf(file, "    .section .note.GNU-stack,\"\",%%progbits\n");
    status = maker_close_file(maker, file, "data.s");
done:
    return status;
}

/* first: for a first run. prepares: with the main program of first runs (prepare.c). */
static inlay_status write_sources(struct maker *maker, bool first, bool prepares)
{
    FILE *file = NULL, *data = NULL;
    inlay_status status;

    maker->facts.first = first;
    INLAY_TRY(maker_write_file(maker, "app.h", &file));
    status = bundle_emit_header(file, maker->collection, &maker->names, maker->names.name, &maker->facts, maker->diag);
    if (status != INLAY_OK) {
        (void)fclose(file);
        goto done;
    }
    INLAY_TRY(maker_close_file(maker, file, "app.h"));
    INLAY_TRY(maker_write_file(maker, "model.c", &file));
    status = maker_write_file(maker, "data.bin", &data);
    if (status != INLAY_OK) {
        (void)fclose(file);
        goto done;
    }
    status = bundle_emit_source(file, data, maker->collection, &maker->names, &maker->facts, maker->diag);
    if (status != INLAY_OK) {
        (void)fclose(file);
        (void)fclose(data);
        goto done;
    }
    maker->job->made.data_bytes = maker->facts.packs_bytes + (uint64_t)ftell(data);
    INLAY_TRY(maker_close_file(maker, file, "model.c"));
    INLAY_TRY(maker_close_file(maker, data, "data.bin"));
    INLAY_TRY(maker_write_file(maker, "main.c", &file));
    if (prepares)
        (void)fprintf(file,
                      "#include \"bundle.h\"\nextern const bundle_model %s_model;\n"
                      "int bundle_prepare(const bundle_model *m, const char *path, int plain);\n"
                      "int main(int argc, char **argv)\n{\n"
                      "    return argc == 3 ? bundle_prepare(&%s_model, argv[1], *argv[2] == 'p') : 2;\n}\n",
                      maker->names.name, maker->names.name);
    else if (maker_is_wasm(maker))
        status = bundle_emit_module(file, maker->collection, &maker->names,
                                    maker->job->separate_weights ? maker_weights_bytes(maker) : 0, maker->diag);
    else
        (void)fprintf(file,
                      "#include \"bundle.h\"\nextern const bundle_model %s_model;\nint main(int argc, char **argv)\n"
                      "{\n    return bundle_main(&%s_model, \"%s\", argc, argv);\n}\n",
                      maker->names.name, maker->names.name, maker->names.api);
    if (status != INLAY_OK) {
        (void)fclose(file);
        goto done;
    }
    INLAY_TRY(maker_close_file(maker, file, "main.c"));
    if (first) {
        INLAY_TRY(maker_write_file(maker, "packs.bin", &file));
        INLAY_TRY(maker_close_file(maker, file, "packs.bin"));
    }
    status = write_assembly(maker, prepares);
done:
    return status;
}

static inlay_status compile(struct maker *maker, const char *source, const char *object)
{
    char *include = arena_format(&maker->collection->arena, "-I%s/include", maker->runtime_dir),
         *own = arena_format(&maker->collection->arena, "-I%s", maker->job->dir);
    char *in = maker_path(maker, maker->job->dir, source), *out = maker_path(maker, maker->job->dir, object);
    const bool is_wasm = maker_is_wasm(maker);
    char *argv[] = { (char *)(uintptr_t)maker_compiler(maker),
                     (char *)"-c",
                     (char *)"-O1",
                     (char *)(uintptr_t)(is_wasm ? "--target=wasm32-wasi" : "-fPIC"),
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
        return no_memory(maker->diag, "to write the bundle");
    code = maker_run(argv, maker->log);
    return code == 0 ? INLAY_OK : maker_failed(maker, "compiling the bundle", argv[0], code);
}

/* Memory for the arguments of a linker, with a definition for each part; NULL: out of memory. */
static char **make_arguments(struct maker *maker)
{
    return arena_array(&maker->collection->arena, (size_t)maker->names.part_count + MAX_ARGS, sizeof(char *));
}

/* Symbols that a program for AVX2 excludes are defined as 0, so that the linker does not search for them. */
static uint32_t define_excluded(struct maker *maker, char **argv, uint32_t count)
{
    for (uint32_t i = 0; maker->names.isa != NULL && i < maker->names.part_count; i++)
        if (maker->names.parts[i].kind == PART_LEVEL)
            argv[count++] = arena_format(&maker->collection->arena, "-Wl,--defsym=%s=0", maker->names.parts[i].name);
    return count;
}

static inlay_status link_program(struct maker *maker, bool first, const char *output)
{
    char **argv = make_arguments(maker);
    uint32_t count = 0;
    int code;

    if (argv == NULL)
        return no_memory(maker->diag, "to write the bundle");
    argv[count++] = (char *)(uintptr_t)maker_compiler(maker);
    argv[count++] = (char *)"-static";
    argv[count++] = (char *)"-no-pie";
    argv[count++] = (char *)"-o";
    argv[count++] = (char *)(uintptr_t)output;
    argv[count++] = (char *)"-Wl,--gc-sections";
    argv[count++] = (char *)"-Wl,--build-id=none";
    argv[count++] = (char *)"-s";
    count = define_excluded(maker, argv, count);
    count = maker_wrap_heap(maker, argv, count);
    argv[count++] = maker_path(maker, maker->job->dir, "main.o");
    argv[count++] = maker_path(maker, maker->job->dir, "model.o");
    argv[count++] = maker_path(maker, maker->job->dir, "data.o");
    if (first)
        argv[count++] = maker_path(maker, maker->job->dir, "stubs.o");
    count = maker_link_runtime(maker, argv, count);
    argv[count++] = (char *)"-lm";
    argv[count] = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (argv[i] == NULL)
            return no_memory(maker->diag, "to write the bundle");
    code = maker_run(argv, maker->log);
    return code == 0 ? INLAY_OK : maker_failed(maker, "linking the bundle", argv[0], code);
}

static const char *const functions[] = { "start", "start_in", "run", "run_in", "error" };
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* Links one object in which only the bundle's functions are visible, with the names that the user chose. The names
 * change only here, because a function of the run-time part may have the same name. */
static inlay_status link_object(struct maker *maker, const char *output)
{
    char **argv = make_arguments(maker), *hide[FUNCTIONS + 4], *rename[FUNCTIONS + 4];
    uint32_t count = 0, hide_count = 0, rename_count = 0;
    int code;

    if (argv == NULL)
        return no_memory(maker->diag, "to write the bundle");
    argv[count++] = (char *)(uintptr_t)maker_compiler(maker);
    argv[count++] = (char *)"-r";
    argv[count++] = (char *)"-nostdlib";
    argv[count++] = (char *)"-o";
    argv[count++] = (char *)(uintptr_t)output;
    argv[count++] = (char *)"-Wl,--gc-sections";
    count = define_excluded(maker, argv, count);
    hide[hide_count++] = rename[rename_count++] = maker_tool(maker, "objcopy");
    for (size_t i = 0; i < FUNCTIONS; i++) {
        argv[count++] = arena_format(&maker->collection->arena, "-Wl,-u,%s_%s", maker->names.name, functions[i]);
        hide[hide_count++] =
            arena_format(&maker->collection->arena, "--keep-global-symbol=%s_%s", maker->names.name, functions[i]);
        rename[rename_count++] = arena_format(&maker->collection->arena, "--redefine-sym=%s_%s=%s_%s",
                                              maker->names.name, functions[i], maker->names.api, functions[i]);
    }
    count = maker_wrap_heap(maker, argv, count);
    argv[count++] = maker_path(maker, maker->job->dir, "model.o");
    argv[count++] = maker_path(maker, maker->job->dir, "data.o");
    count = maker_link_runtime(maker, argv, count);
    argv[count] = NULL;
    hide[hide_count++] = rename[rename_count++] = (char *)(uintptr_t)output;
    hide[hide_count] = rename[rename_count] = NULL;
    INLAY_CHECK(count < maker->names.part_count + MAX_ARGS && hide_count < FUNCTIONS + 4 &&
                rename_count < FUNCTIONS + 4);
    for (uint32_t i = 0; i < count + hide_count + rename_count; i++)
        if ((i < count ? argv[i] : i < count + hide_count ? hide[i - count] : rename[i - count - hide_count]) == NULL)
            return no_memory(maker->diag, "to write the bundle");
    code = maker_run(argv, maker->log);
    if (code != 0)
        return maker_failed(maker, "linking the object", argv[0], code);
    code = maker_run(hide, maker->log);
    if (code == 0)
        code = maker_run(rename, maker->log);
    return code == 0 ? INLAY_OK : maker_failed(maker, "hiding the object's symbols", hide[0], code);
}

static inlay_status link_library(struct maker *maker, const char *output)
{
    char *object = arena_format(&maker->collection->arena, "%s/whole_%s.o", maker->job->dir,
                                maker->names.api); /* differs from the names of the sources */
    char *argv[] = { maker_tool(maker, "ar"), (char *)"rcs", (char *)(uintptr_t)output, object, NULL };
    inlay_status status;
    int code;

    if (object == NULL || argv[0] == NULL)
        return no_memory(maker->diag, "to write the bundle");
    INLAY_TRY(link_object(maker, object));
    code = maker_run(argv, maker->log);
    if (code != 0)
        status = maker_failed(maker, "writing the library", argv[0], code);
done:
    return status;
}

static inlay_status write_header(struct maker *maker)
{
    inlay_status status;
    FILE *file;

    INLAY_TRY(maker_write_file(maker, HEADER, &file));
    status = bundle_emit_header(file, maker->collection, &maker->names, maker->names.api, &maker->facts, maker->diag);
    if (status != INLAY_OK)
        (void)fclose(file);
    else
        status = maker_close_file(maker, file, HEADER);
done:
    return status;
}

inlay_status bundle_publish(const bundle_job *job, inlay_diag *diag)
{
    output_file made = { .fd = -1 }, header = { .fd = -1 };
    char from[PATH_MAX], target[PATH_MAX];
    struct arena arena = { 0 };
    char *path = maker_path_beside(&arena, job, ".h");
    inlay_status status = INLAY_OK;

    if (path == NULL || (size_t)snprintf(from, sizeof from, "%s/" HEADER, job->dir) >= sizeof from)
        status = no_memory(diag, "to write the bundle");
    else if (job->kind != BUNDLE_PROGRAM && !output_target(job->output, target))
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "%.200s is not a regular file, so there is no folder for the header", job->output);
    INLAY_TRY(status);
    if (strcmp(job->target, "wasm32") == 0) {
        status = maker_publish_wasm(job, &arena, diag);
        goto done;
    }
    INLAY_TRY(output_move_file(&made, job->output, job->made.file, diag));
    if (job->kind != BUNDLE_PROGRAM)
        INLAY_TRY(output_move_file(&header, path, from, diag));
    status = output_commit(&made, job->kind != BUNDLE_PROGRAM ? &header : NULL, diag);
done:
    output_drop(&made);
    output_drop(&header);
    arena_deinit(&arena);
    return status;
}

static inlay_status report_progress(const struct maker *maker, double fraction, const char *what)
{
    if (maker->job->progress != NULL && maker->job->progress(maker->job->user, fraction, what) != 0)
        return inlay_fail(maker->diag, INLAY_CANCELLED, "cancelled");
    return INLAY_OK;
}

static inlay_status link_output(struct maker *maker, bool first, bool prepares, const char *output)
{
    return maker_is_wasm(maker) ? maker_link_wasm(maker, !prepares, output) : link_program(maker, first, output);
}

static inlay_status build(struct maker *maker, bool first, bool prepares, const char *output)
{
    inlay_status status;

    INLAY_TRY(write_sources(maker, first, prepares));
    INLAY_TRY(compile(maker, "model.c", "model.o"));
    INLAY_TRY(compile(maker, "main.c", "main.o"));
    INLAY_TRY(compile(maker, "data.s", "data.o"));
    if (first || maker->names.in_assembly) {
        INLAY_TRY(maker_write_stubs(maker));
        INLAY_TRY(compile(maker, "stubs.s", "stubs.o"));
    }
    status = link_output(maker, first, prepares, output);
done:
    return status;
}

/* Builds the first program again, with more parts. */
static inlay_status build_again(struct maker *maker, const char *output)
{
    inlay_status status;

    INLAY_TRY(write_sources(maker, true, true));
    INLAY_TRY(compile(maker, "model.c", "model.o"));
    INLAY_TRY(maker_write_stubs(maker));
    INLAY_TRY(compile(maker, "stubs.s", "stubs.o"));
    status = link_output(maker, true, true, output);
done:
    return status;
}

/* libmodel.a -> model; "model" if memory is exhausted. */
static const char *default_name(struct maker *maker)
{
    const char *base = path_name(maker->job->output), *name, *dot = strrchr(base, '.');

    if (maker->job->kind == BUNDLE_LIBRARY && strncmp(base, "lib", 3) == 0 && base[3] != '\0' && base[3] != '.')
        base += 3;
    name = arena_string_n(&maker->collection->arena, base,
                          dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base));
    return name != NULL && name[0] != '\0' ? name : "model";
}

/* Runs a program at all levels; builds it again with what these runs lacked, until they lack nothing. */
static inlay_status run_levels(struct maker *maker, bool first, const char *name)
{
    const char *program = maker_path(maker, maker->job->dir, name);
    inlay_status status = INLAY_OK;

    for (bool again = true; again;) {
        again = false;
        for (uint32_t level = 0; level < maker_level_count(maker); level++)
            INLAY_TRY(maker_first_run(maker, name, level, &again));
        if (again)
            INLAY_TRY(first ? build_again(maker, program) : build(maker, false, true, program));
    }
done:
    return status;
}

/* With packed weights in the program, a start needs less of the arena than in the first runs: measure it. */
static inlay_status measure_arena(struct maker *maker)
{
    inlay_status status;

    if (maker->job->made.pack_count == 0)
        return INLAY_OK;
    INLAY_TRY(build(maker, false, true, maker_path(maker, maker->job->dir, "measured")));
    INLAY_TRY(run_levels(maker, false, "measured"));
    status = maker_read_arena(maker, maker_level_count(maker));
done:
    return status;
}

const char *bundle_limit(const bundle_job *job)
{
    const char *limit = getenv("INLAY_ISA");

    if (limit == NULL || strcmp(job->target, bundle_native_target()) != 0)
        limit = "";
#if defined(__x86_64__)
    if (strcmp(limit, "baseline") == 0)
        return "baseline";
#endif
    if (job->uniform && strncmp(job->target, "x86_64", 6) == 0)
        return "avx2"; /* vectors of uniform kernels are those of AVX2 */
    if (job->isa != NULL && strcmp(job->isa, "native") == 0)
        return strcmp(limit, "avx2") == 0 ? "avx2" : NULL;
    return job->isa;
}

/* Finds the run-time part for the target, and rejects options that do not apply to it. */
static inlay_status check_job(struct maker *maker)
{
    const bundle_job *job = maker->job;
    const char *suffix = strrchr(job->output, '.'), *meant = maker_target_meant(job->target);
    char target[PATH_MAX];

    if (!maker_find_runtime(job->target, maker->runtime_dir) && maker_is_wasm(maker))
        return inlay_fail(maker->diag, INLAY_NOT_FOUND,
                          "no run-time part for target 'wasm32' in %s, relative to this program: in inlay's sources, "
                          "host/tools/bundle/runtime/cross.sh --target wasm32 PREFIX builds it for the inlay that is "
                          "installed in PREFIX, with the packages clang, lld, llvm, wasi-libc, "
                          "libclang-rt-dev-wasm32 and nodejs",
                          INLAY_BUNDLE_FROM_BIN);
    if (!maker_find_runtime(job->target, maker->runtime_dir) && meant != NULL)
        return inlay_fail(maker->diag, INLAY_NOT_FOUND, "unknown target '%s'; did you mean '%s'?", job->target, meant);
    if (!maker_find_runtime(job->target, maker->runtime_dir))
        return inlay_fail(maker->diag, INLAY_NOT_FOUND,
                          "no run-time part for target '%s' in %s, relative to this program: it "
                          "is part of libinlay-dev; for arm64, host/tools/bundle/runtime/cross.sh PREFIX in inlay's "
                          "sources builds it for the inlay that is installed in PREFIX",
                          job->target, INLAY_BUNDLE_FROM_BIN);
    if (job->uniform && access(maker_path(maker, maker->runtime_dir, "libinlay_uniform.a"), R_OK) != 0)
        return inlay_fail(maker->diag, INLAY_UNSUPPORTED,
                          "programs for target '%s' have no kernels for --reproducible cpu", job->target);
    if (maker_is_wasm(maker) && job->kind != BUNDLE_PROGRAM)
        return inlay_fail(maker->diag, INLAY_INVALID_ARGUMENT,
                          "--library and --object are for C programs: without them, target wasm32 makes a module");
    if (maker_is_wasm(maker) && !output_target(job->output, target))
        return inlay_fail(maker->diag, INLAY_INVALID_ARGUMENT,
                          "%.200s is not a regular file, so there is no folder for the files beside it", job->output);
    if (maker_is_wasm(maker) && (suffix == NULL || strcmp(suffix, ".wasm") != 0))
        return inlay_fail(maker->diag, INLAY_INVALID_ARGUMENT,
                          "%.200s: the wrapper looks for a module NAME.wasm: write it to such a name", job->output);
    if (!maker_is_wasm(maker) && job->separate_weights)
        return inlay_fail(maker->diag, INLAY_INVALID_ARGUMENT, "--separate-weights needs --target wasm32");
    if (maker->native && !maker_is_native(maker))
        return inlay_fail(maker->diag, INLAY_INVALID_ARGUMENT, "--for native needs a target of this machine, not '%s'",
                          job->target);
    return INLAY_OK;
}

inlay_status bundle_make(bundle_job *job, bundle_collection *collection, inlay_diag *diag)
{
    const bool native = job->isa != NULL && strcmp(job->isa, "native") == 0;
    struct maker maker = { .job = job,
                           .collection = collection,
                           .diag = diag,
                           .native = native,
                           .names = { .isa = bundle_limit(job),
                                      .uniform = job->uniform,
                                      .in_assembly = strcmp(job->target, "wasm32") == 0 } };
    struct stat st;
    inlay_status status;

    INLAY_TRY(check_job(&maker));
    (void)snprintf(maker.log, sizeof maker.log, "%s/log", job->dir);
    job->made.pack_count = job->made.start_count = 0;
    job->made.memory_bytes = 0;
    job->made.prepared = job->made.declined = false;
    if (!bundle_name(collection, job->name != NULL ? job->name : default_name(&maker), &maker.names))
        return no_memory(diag, "to write the bundle");
    INLAY_TRY(maker_find_needs(&maker));
    INLAY_TRY(report_progress(&maker, 0.1, "compiling"));
    INLAY_TRY(build(&maker, true, true, maker_path(&maker, job->dir, "first")));
    INLAY_TRY(report_progress(&maker, 0.5, "packing"));
    INLAY_TRY(run_levels(&maker, true, "first"));
    if (job->made.prepared)
        INLAY_TRY(maker_read_reports(&maker, maker_level_count(&maker)));
    else
        maker_keep_untested(&maker, NULL, 0);
    if (job->made.prepared && job->accept != NULL && !job->accept(job->user)) {
        job->made.declined = true;
        return inlay_fail(diag, INLAY_UNSUPPORTED, "weights of %llu bytes in memory were declined",
                          (unsigned long long)job->made.memory_bytes);
    }
    INLAY_TRY(report_progress(&maker, 0.7, "linking"));
    INLAY_TRY(measure_arena(&maker));
    job->made.tried = maker_path(&maker, job->dir, maker_is_wasm(&maker) ? "whole.wasm" : "whole");
    INLAY_TRY(build(&maker, false, false, job->made.tried));
    job->made.file = job->made.tried;
    if (job->kind != BUNDLE_PROGRAM) {
        job->made.file = maker_path(&maker, job->dir, "made");
        INLAY_TRY(write_header(&maker));
    }
    if (maker_is_wasm(&maker))
        INLAY_TRY(maker_write_beside(&maker));
    if (job->kind == BUNDLE_LIBRARY)
        INLAY_TRY(link_library(&maker, job->made.file));
    if (job->kind == BUNDLE_OBJECT)
        INLAY_TRY(link_object(&maker, job->made.file));
    job->made.arena_bytes = maker.facts.arena_bytes;
    job->made.file_bytes = stat(job->made.file, &st) == 0 ? (uint64_t)st.st_size : 0;
done:
    return status;
}

inlay_status bundle_run_result(const bundle_job *job, char *const *inputs, uint32_t count, const char *dir,
                               inlay_diag *diag)
{
    struct maker maker = { .job = (bundle_job *)(uintptr_t)job, .diag = diag };
    char *argv[MAX_ARGS + 8], path[PATH_MAX + 8];
    uint32_t used = 0;
    int code;

    if (count > MAX_ARGS)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "more than %d inputs", MAX_ARGS);
    (void)snprintf(maker.log, sizeof maker.log, "%s/log", job->dir);
    used = maker_emulator(&maker, true, argv);
    (void)snprintf(path, sizeof path, "%s%s", strchr(job->made.tried, '/') == NULL ? "./" : "", job->made.tried);
    argv[used++] = path;
    argv[used++] = (char *)"-o";
    argv[used++] = (char *)(uintptr_t)dir;
    for (uint32_t i = 0; i < count; i++)
        argv[used++] = inputs[i];
    argv[used] = NULL;
    code = maker_run(argv, maker.log);
    if (code == 127 && !maker_is_native(&maker))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "cannot find %s", argv[0]);
    return code == 0 ? INLAY_OK : maker_failed(&maker, "trying the bundle", argv[0], code);
}
