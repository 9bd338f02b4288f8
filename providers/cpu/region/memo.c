/* A cache of oneDNN's descriptors during a build, keyed by operation and by whether it may use several threads. Layers
 * of a network are often equal, and the search for a kernel takes longer than a small kernel runs. */
#include "cpu/region/build.h"

struct cpu_memo {
    cpu_memo *next;
    library_description pd;
    uint64_t hash;
    bool threaded;
    library_op op;
};

static uint64_t hash_of(const library_op *op)
{
    const char *bytes = (const char *)op;
    uint64_t hash = 0, word;

    _Static_assert(sizeof *op % sizeof word == 0, "library_op is hashed word by word");
    for (size_t i = 0; i < sizeof *op; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

bool cpu_memo_find(const cpu_build *build, const library_op *op, library_description *out)
{
    const uint64_t hash = hash_of(op);

    for (const cpu_memo *memo = build->memo; memo != NULL; memo = memo->next)
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): floats by bits */
        if (memo->hash == hash && memo->threaded == cpu_threads_several() && memcmp(&memo->op, op, sizeof *op) == 0)
            return library_clone(out, memo->pd) == LIBRARY_SUCCESS;
    return false;
}

void cpu_memo_keep(cpu_build *build, const library_op *op, library_const_description pd)
{
    cpu_memo *memo = cpu_scratch_take(build->scratch, 1, sizeof *memo);

    INLAY_CHECK(pd != NULL);
    if (memo == NULL) /* the descriptor is not cached */
        return;
    *memo = (cpu_memo){ .next = build->memo, .hash = hash_of(op), .threaded = cpu_threads_several(), .op = *op };
    if (library_clone(&memo->pd, pd) == LIBRARY_SUCCESS)
        build->memo = memo;
}

void cpu_memo_drop(cpu_build *build)
{
    for (; build->memo != NULL; build->memo = build->memo->next)
        library_destroy(build->memo->pd);
}

inlay_status cpu_describe(cpu_build *build, const library_op *op, library_description *out)
{
    inlay_status status;

    *out = NULL;
    if (cpu_memo_find(build, op, out))
        return INLAY_OK;
    status =
        cpu_check(library_describe(build->state->engine, op, NULL, out), build->diag, "compute this", build->op->name);
    if (status == INLAY_OK)
        cpu_memo_keep(build, op, *out);
    return status;
}
