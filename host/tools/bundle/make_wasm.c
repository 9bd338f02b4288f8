/* Bundles for WebAssembly: the module, its wrapper in JavaScript, and the declarations of its types. */
#include "base/output.h"
#include "bundle/maker.h"
#include <errno.h>
#include <string.h>

/* The stack is at the start of the memory, so that an overflow ends the run. */
#define STACK_BYTES "1048576"
/* Files in the job's folder. The files for try.mjs have the same names with another suffix. */
#define TYPES "made.d.mts"
#define WRAPPER "made.mjs"
#define WEIGHTS "whole.weights"
enum { GAP = 64 }; /* zero bytes after the constants, and after the packed weights */

uint64_t maker_weights_bytes(const struct maker *maker)
{
    return maker->job->made.data_bytes + 2 * (uint64_t)GAP;
}

inlay_status maker_write_wasm_data(struct maker *maker, bool separate)
{
    const uint64_t bytes[] = { maker->job->made.data_bytes - maker->facts.packs_bytes, maker->facts.packs_bytes };
    static const char *const parts[] = { "data", "packs" };
    inlay_status status;
    FILE *file;

    INLAY_TRY(maker_write_file(maker, "data.s", &file));
    (void)fprintf(file, "    .section %s.weights,\"\",@\n    .p2align 6\n", separate ? ".bss" : ".rodata");
    for (int i = 0; i < 2; i++) {
        (void)fprintf(file, "    .globl %s_%s\n    .hidden %s_%s\n    .type %s_%s,@object\n%s_%s:\n", maker->names.name,
                      parts[i], maker->names.name, parts[i], maker->names.name, parts[i], maker->names.name, parts[i]);
        if (separate)
            (void)fprintf(file, "    .zero %llu\n", (unsigned long long)bytes[i] + GAP);
        else
            (void)fprintf(file, "    .incbin \"%s/%s.bin\"\n    .zero %d\n", maker->job->dir, parts[i], GAP);
        (void)fprintf(file, "    .size %s_%s, %llu\n", maker->names.name, parts[i], (unsigned long long)bytes[i] + GAP);
    }
    status = maker_close_file(maker, file, "data.s");
done:
    return status;
}

/* Appends a file, then `gap` zero bytes. */
static bool append(struct maker *maker, const char *folder, const char *name, size_t gap, FILE *to)
{
    static const char zeros[GAP];
    const char *path = maker_path(maker, folder, name);
    FILE *from = path != NULL ? fopen(path, "rb") : NULL;
    char buffer[1 << 14];
    bool good = from != NULL;

    for (size_t got; good && (got = fread(buffer, 1, sizeof buffer, from)) > 0;)
        good = fwrite(buffer, 1, got, to) == got;
    good = good && ferror(from) == 0 && fwrite(zeros, 1, gap, to) == gap;
    if (from != NULL)
        (void)fclose(from);
    return good;
}

inlay_status maker_link_wasm(struct maker *maker, bool is_module, const char *output)
{
    static const char *const objects[] = { "main.o", "model.o", "data.o", "stubs.o" };
    static const char *const imports[] = { "fd_close", "fd_seek", "fd_write" }; /* see module.c */
    char *argv[40];
    uint32_t count = 0;
    int code;

    argv[count++] = (char *)(uintptr_t)maker_compiler(maker);
    argv[count++] = (char *)"--target=wasm32-wasi";
    argv[count++] = (char *)"-o";
    argv[count++] = (char *)(uintptr_t)output;
    argv[count++] = (char *)"-Wl,--gc-sections";
    argv[count++] = (char *)"-Wl,--strip-all";
    argv[count++] = (char *)"-Wl,--stack-first";
    argv[count++] = (char *)"-Wl,-z,stack-size=" STACK_BYTES;
    if (is_module) {
        argv[count++] = (char *)"-mexec-model=reactor";
        argv[count++] = (char *)"-Wl,--undefined=bundle_module_start"; /* links module.c with all of its functions */
        for (size_t i = 0; i < sizeof imports / sizeof imports[0]; i++)
            argv[count++] =
                arena_format(&maker->collection->arena, "-Wl,--wrap=__imported_wasi_snapshot_preview1_%s", imports[i]);
    }
    count = maker_wrap_heap(maker, argv, count);
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
        argv[count++] = maker_path(maker, maker->job->dir, objects[i]);
    count = maker_link_runtime(maker, argv, count);
    argv[count] = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (argv[i] == NULL)
            return no_memory(maker->diag, "to write the bundle");
    code = maker_run(argv, maker->log);
    return code == 0 ? INLAY_OK : maker_failed(maker, "linking the bundle", argv[0], code);
}

static inlay_status close_copy(struct maker *maker, bool good, FILE *file, const char *name)
{
    const int error = errno;

    if (good)
        return maker_close_file(maker, file, name);
    (void)fclose(file);
    return inlay_fail(maker->diag, INLAY_IO_ERROR, "cannot write %s/%s: %s", maker->job->dir, name, strerror(error));
}

inlay_status maker_write_beside(struct maker *maker)
{
    inlay_status status;
    FILE *file;

    INLAY_TRY(maker_write_file(maker, TYPES, &file));
    status = bundle_emit_types(file, maker->collection, maker->diag);
    if (status != INLAY_OK) {
        (void)fclose(file);
        goto done;
    }
    INLAY_TRY(maker_close_file(maker, file, TYPES));
    INLAY_TRY(maker_write_file(maker, WRAPPER, &file));
    INLAY_TRY(close_copy(maker, append(maker, maker->runtime_dir, "include/load.mjs", 0, file), file, WRAPPER));
    if (!maker->job->separate_weights)
        goto done;
    INLAY_TRY(maker_write_file(maker, WEIGHTS, &file));
    status = close_copy(maker,
                        append(maker, maker->job->dir, "data.bin", GAP, file) &&
                            append(maker, maker->job->dir, "packs.bin", GAP, file),
                        file, WEIGHTS);
done:
    return status;
}

/* Publishes the wrapper and the types, then the module and its weights. */
inlay_status maker_publish_wasm(const bundle_job *job, struct arena *arena, inlay_diag *diag)
{
    output_file module = { .fd = -1 }, weights = { .fd = -1 }, wrapper = { .fd = -1 }, types = { .fd = -1 };
    const char *wrapper_path = maker_path_beside(arena, job, ".mjs"),
               *types_path = maker_path_beside(arena, job, ".d.mts"),
               *weights_path = maker_path_beside(arena, job, ".weights");
    const char *from[] = { arena_format(arena, "%s/" TYPES, job->dir), arena_format(arena, "%s/" WRAPPER, job->dir),
                           arena_format(arena, "%s/" WEIGHTS, job->dir) };
    inlay_status status = INLAY_OK;

    if (wrapper_path == NULL || types_path == NULL || weights_path == NULL || from[0] == NULL || from[1] == NULL ||
        from[2] == NULL)
        return no_memory(diag, "to write the bundle");
    INLAY_TRY(output_move_file(&types, types_path, from[0], diag));
    INLAY_TRY(output_move_file(&wrapper, wrapper_path, from[1], diag));
    INLAY_TRY(output_move_file(&module, job->output, job->made.file, diag));
    if (job->separate_weights)
        INLAY_TRY(output_move_file(&weights, weights_path, from[2], diag));
    INLAY_TRY(output_commit(&wrapper, &types, diag));
    status = output_commit(&module, job->separate_weights ? &weights : NULL, diag);
done:
    output_drop(&module);
    output_drop(&weights);
    output_drop(&wrapper);
    output_drop(&types);
    return status;
}
