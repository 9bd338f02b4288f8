/* What a program can leave out of the providers. */
#include "bundle/maker.h"
#include <errno.h>
#include <string.h>

enum { MOST_PARTS = 4096 };

/* Does a step run the operator, in a region of cpu or by a table? */
static bool has_operator(const struct maker *m, bool in_region, const char *op)
{
    for (uint32_t i = 0; i < m->c->step_count; i++) {
        const bundle_do *d = &m->c->steps[i];
        graph_node *const *nodes = d->what == DO_RUN ? m->c->parts[d->part].p->graph->nodes : NULL;

        if (nodes == NULL || bundle_is_region(m->c, d) != in_region)
            continue;
        for (uint32_t k = 0; k < d->step->region->node_count; k++)
            if (strcmp(nodes[d->step->region->nodes[k]]->info.op_type.data, op) == 0)
                return true;
    }
    return false;
}

bundle_part_of *maker_part(const struct maker *m, const char *name)
{
    for (uint32_t i = 0; i < m->n.part_count; i++)
        if (strcmp(m->n.parts[i].name, name) == 0)
            return &m->n.parts[i];
    return NULL;
}

/* Are all families of "a+b" needed? */
static bool has_families(const struct maker *m, char *word)
{
    char *rest = NULL;

    for (const char *name = strtok_r(word, "+", &rest); name != NULL; name = strtok_r(NULL, "+", &rest)) {
        const bundle_part_of *p = maker_part(m, name);

        if (p == NULL || !p->needed)
            return false;
    }
    return true;
}

/* One line of parts.txt: the part, and what it depends on. */
static bool read_part(struct maker *m, char *line)
{
    char *rest = NULL;
    const char *kind = strtok_r(line, " \n", &rest), *name = strtok_r(NULL, " \n", &rest);
    bundle_part_of *p = name != NULL ? maker_part(m, name) : NULL;

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
                  : kind[0] == 'k'              ? PART_KERNEL
                  : kind[0] == 'b'              ? PART_BASELINE
                  : kind[0] == 'l'              ? PART_LEVEL
                                                : PART_FUNCTION;
        /* Plain C is for CPUs that a region of cpu does not run on; on arm64 there are none such. */
        p->needed = p->kind == PART_BASELINE && !m->n.has_cpu && strcmp(name, "rows_c") == 0 &&
                    strncmp(m->job->target, "x86_64", 6) == 0;
    }
    for (char *word = strtok_r(NULL, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) {
        p->needed |= p->kind == PART_SET ? has_families(m, word) : has_operator(m, p->kind != PART_TABLE, word);
    }
    return true;
}

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), e = strlen(end);

    return n >= e && strcmp(name + n - e, end) == 0;
}

/* Is there the same table for a level of instructions that every CPU has which the program runs on? */
static bool has_better(const struct maker *m, const char *table)
{
    char name[sizeof m->n.parts->name + sizeof "_avx2"];

    (void)snprintf(name, sizeof name, "%s_avx2", table);
    if (maker_part(m, name) != NULL)
        return m->n.has_cpu; /* whose regions need AVX2 */
    (void)snprintf(name, sizeof name, "%s_neon", table);
    return maker_part(m, name) != NULL;
}

/* Tables that no CPU takes which the program runs on. */
static void drop_tables(struct maker *m)
{
    for (uint32_t i = 0; i < m->n.part_count; i++) {
        bundle_part_of *p = &m->n.parts[i];

        if (p->kind == PART_TABLE && (has_better(m, p->name) || (m->n.isa != NULL && ends_in(p->name, "_avx512"))))
            p->needed = false;
    }
}

inlay_status maker_find_needs(struct maker *m)
{
    char path[PATH_MAX + 32], line[512];
    bool good = true;
    FILE *f;

    for (uint32_t i = 0; i < m->c->step_count; i++) {
        if (m->c->steps[i].what != DO_RUN)
            continue;
        *(bundle_is_region(m->c, &m->c->steps[i]) ? &m->n.has_cpu : &m->n.has_reference) = true;
    }
    m->n.parts = arena_array(&m->c->a, MOST_PARTS, sizeof *m->n.parts);
    if (m->n.parts == NULL)
        return no_memory(m->diag, "to write the bundle");
    (void)snprintf(path, sizeof path, "%s/parts.txt", m->parts);
    f = fopen(path, "r");
    if (f == NULL)
        return inlay_fail(m->diag, INLAY_IO_ERROR, "cannot read %s: %s", path, strerror(errno));
    while (good && fgets(line, sizeof line, f) != NULL)
        good = read_part(m, line);
    (void)fclose(f);
    drop_tables(m);
    return good ? INLAY_OK : inlay_fail(m->diag, INLAY_INTERNAL, "%s has too many parts", path);
}

/* Parts of kernels for instructions that no first run used are all kept. */
void maker_keep_untried(struct maker *m, const uint64_t *levels, uint32_t count)
{
    static const struct {
        const char *end;
        uint64_t bits, value; /* of bundle_level() */
    } ends[] = {
        { "_avx512_vnni", 16, 16 }, { "_avx_vnni", 32, 32 }, { "_avx512", 15, 3 }, { "_avx2", 15, 2 },
        { "_neon", 15, 1 },         { "_c", 0, 1 },          { "_base", 0, 1 },
    };
    const uint32_t end_count = sizeof ends / sizeof ends[0];

    for (uint32_t i = 0; i < m->n.part_count; i++) {
        bundle_part_of *p = &m->n.parts[i];
        uint32_t e = 0, tried = 0;

        if (count == 0 && (p->kind == PART_FUNCTION || p->kind == PART_KERNEL))
            p->needed = true;
        if (p->kind != PART_KERNEL)
            continue;
        while (e < end_count && !ends_in(p->name, ends[e].end))
            e++;
        for (uint32_t l = 0; l < count; l++)
            tried += e == end_count || (levels[l] & ends[e].bits) == ends[e].value;
        if (e < end_count && ends[e].bits == 0 && m->n.has_cpu && count > 0)
            continue; /* no CPU that the program runs on takes plain C */
        p->needed |= tried == 0;
    }
}

/* Assembly, because a compiler takes a second for a thousand functions, and the first program is made several times. */
inlay_status maker_write_stubs(struct maker *m)
{
    const bool arm = strncmp(m->job->target, "aarch64", 7) == 0;
    inlay_status status;
    FILE *f;

    INLAY_TRY(maker_write_file(m, "stubs.s", &f));
    for (uint32_t i = 0; i < m->n.part_count; i++) {
        const bundle_part_of *p = &m->n.parts[i];

        if (p->kind != PART_KERNEL || p->needed)
            continue;
        (void)fprintf(f, "    .text\n    .globl %s\n    .hidden %s\n%s:\n", p->name, p->name, p->name);
        (void)fprintf(f,
                      arm ? "    adrp x0, .L%u\n    add x0, x0, :lo12:.L%u\n    b bundle_lacks\n"
                          : "    leaq .L%u(%%rip), %%rdi\n    jmp bundle_lacks\n",
                      i, i);
        (void)fprintf(f, "    .data\n.L%u:\n    .byte 0\n    .asciz \"%s\"\n", i, p->name);
    }
    (void)fprintf(f, "    .section .note.GNU-stack,\"\",%%progbits\n");
    status = maker_close_file(m, f, "stubs.s");
done:
    return status;
}
