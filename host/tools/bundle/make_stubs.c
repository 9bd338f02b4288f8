/* Assembly for the functions that take the place of excluded parts. A compiler would need a second for a thousand
 * functions, and the first program is built several times. */
#include "bundle/maker.h"
#include <string.h>

/* In machine code, only programs for first runs have stubs, which report their names. */
static void write_native(const struct maker *maker, FILE *file)
{
    const bool arm = strncmp(maker->job->target, "aarch64", 7) == 0;

    for (uint32_t i = 0; i < maker->names.part_count; i++) {
        const provider_part *part = &maker->names.parts[i];

        if (part->kind != PART_KERNEL || part->needed)
            continue;
        (void)fprintf(file, "    .text\n    .globl %s\n    .hidden %s\n%s:\n", part->name, part->name, part->name);
        (void)fprintf(file,
                      arm ? "    adrp x0, .L%u\n    add x0, x0, :lo12:.L%u\n    b bundle_note_missing\n"
                          : "    leaq .L%u(%%rip), %%rdi\n    jmp bundle_note_missing\n",
                      i, i);
        (void)fprintf(file, "    .data\n.L%u:\n    .byte 0\n    .asciz \"%s\"\n", i, part->name);
    }
    (void)fprintf(file, "    .section .note.GNU-stack,\"\",%%progbits\n");
}

static const char *wasm_type(char letter)
{
    return letter == 'i' ? "i32" : letter == 'I' ? "i64" : letter == 'f' ? "f32" : letter == 'F' ? "f64" : "v128";
}

static void write_types(FILE *file, const char *letters, size_t count)
{
    (void)fputc('(', file);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(file, "%s%s", i > 0 ? ", " : "", wasm_type(letters[i]));
    (void)fputc(')', file);
}

/* A function that calls `calls`, with the address of a zero byte and the name of the part unless `plain`, or of the
 * name alone, and returns `result`. */
static void write_wasm_stub(FILE *file, const provider_part *part, const char *calls, bool plain, uint32_t offset,
                            int result)
{
    const char *results = strchr(part->signature, ':') + 1;
    const char *type = wasm_type(results[0]);

    (void)fprintf(file,
                  "    .section .text.%s,\"\",@\n    .globl %s\n    .hidden %s\n    .type %s,@function\n%s:\n"
                  "    .functype %s ",
                  part->name, part->name, part->name, part->name, part->name, part->name);
    write_types(file, part->signature, (size_t)(results - 1 - part->signature));
    (void)fputs(" -> ", file);
    write_types(file, results, strlen(results));
    (void)fputc('\n', file);
    if (calls != NULL && !plain)
        (void)fprintf(file, "    i32.const name_of_%s+%u\n", part->name, offset);
    if (calls != NULL)
        (void)fprintf(file, "    call %s\n", calls);
    if (results[0] != '\0')
        (void)fprintf(file, "    %s.const %d%s\n", type, result, type[0] == 'f' ? ".0" : "");
    (void)fputs("    end_function\n", file);
    if (calls != NULL && !plain)
        (void)fprintf(file,
                      "    .section .data.name_of_%s,\"\",@\n    .type name_of_%s,@object\nname_of_%s:\n    .int8 0\n"
                      "    .asciz \"%s\"\n    .size name_of_%s, %zu\n",
                      part->name, part->name, part->name, part->name, part->name, strlen(part->name) + 2);
}

static void write_wasm(const struct maker *maker, FILE *file)
{
    const bool first = maker->facts.first;

    (void)fputs("    .functype bundle_note_missing (i32) -> ()\n    .functype bundle_report_missing (i32) -> ()\n"
                "    .functype bundle_fail_excluded () -> ()\n",
                file);
    for (uint32_t i = 0; i < maker->names.part_count; i++) {
        const provider_part *part = &maker->names.parts[i];

        if (part->needed || part->signature == NULL)
            continue;
        if (part->kind == PART_KERNEL)
            write_wasm_stub(file, part, first ? "bundle_note_missing" : "bundle_fail_excluded", !first, 0, 0);
        else if (part->kind == PART_FUNCTION)
            write_wasm_stub(file, part, first ? "bundle_report_missing" : NULL, !first, 1, INLAY_UNSUPPORTED);
        else
            write_wasm_stub(file, part, NULL, true, 0, 0);
    }
}

inlay_status maker_write_stubs(struct maker *maker)
{
    inlay_status status;
    FILE *file;

    INLAY_TRY(maker_write_file(maker, "stubs.s", &file));
    if (maker->names.in_assembly)
        write_wasm(maker, file);
    else
        write_native(maker, file);
    status = maker_close_file(maker, file, "stubs.s");
done:
    return status;
}
