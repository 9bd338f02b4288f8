/* Descriptors of oneDNN's kernels, each made once for an instance, for its threads or for one: layers of a network are
 * alike, and to look for a kernel takes longer than small ones run. */
#include "region/build.h"

struct rg_memo {
    rg_memo *next;
    dn_description pd;
    uint64_t hash;
    bool many; /* threads */
    dn_op op;
};

static uint64_t hash_of(const dn_op *op)
{
    const char *bytes = (const char *)op;
    uint64_t hash = 0, word;

    _Static_assert(sizeof *op % sizeof word == 0, "hashed by words");
    for (size_t i = 0; i < sizeof *op; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

bool rg_memo_find(const rg_build *build, const dn_op *op, dn_description *out)
{
    const uint64_t hash = hash_of(op);

    for (const rg_memo *memo = build->memo; memo != NULL; memo = memo->next)
        if (memo->hash == hash && memo->many == rg_threads_many() && memcmp(&memo->op, op, sizeof *op) == 0)
            return dn_clone(out, memo->pd) == DN_SUCCESS;
    return false;
}

void rg_memo_keep(rg_build *build, const dn_op *op, dn_const_description pd)
{
    rg_memo *memo = rg_scratch_take(build->scratch, 1, sizeof *memo);

    if (memo == NULL) /* nothing is lost */
        return;
    *memo = (rg_memo){ .next = build->memo, .hash = hash_of(op), .many = rg_threads_many(), .op = *op };
    if (dn_clone(&memo->pd, pd) == DN_SUCCESS)
        build->memo = memo;
}

void rg_memo_drop(rg_build *build)
{
    for (; build->memo != NULL; build->memo = build->memo->next)
        dn_destroy(build->memo->pd);
}
