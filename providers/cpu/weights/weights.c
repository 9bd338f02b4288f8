/* Packs the constants of a region: once per layout, shared by the instances of all shapes. */
#include "cpu/weights/blocks.h"
#include "inlay/extensions.h"
#include "cpu/weights/halves.h"
#include "cpu/weights/low_bit.h"
#include "cpu/weights/nbits_weights.h"
#include "cpu/weights/packs.h"
#include "cpu/weights/sparse_weights.h"
#include "cpu/weights/winograd_accuracy.h"

/* Files do not align elements. x86 and WebAssembly support unaligned loads; elsewhere a constant is copied first. */
#if defined(__x86_64__) || defined(__i386__) || defined(__wasm__)
enum { MUST_ALIGN = 0 };
#else
enum { MUST_ALIGN = 1 };
#endif

/* Restores a dropped original with dense strides, from a pack. */
static inlay_status unpack(const inlay_compiled *compiled, const cpu_constant *constant, void *out, inlay_diag *diag)
{
    const cpu_pack *from = pack_to_unpack(constant);

    INLAY_CHECK(from != NULL);
    return cpu_reorder_now(compiled->state, &from->layout, from->data, &from->plain, out, diag);
}

/* Can kernels read the elements where they lie? */
static bool is_in_place(const cpu_constant *constant)
{
    return constant->data != NULL && constant->shift == 0 &&
           !(MUST_ALIGN && (uintptr_t)constant->data % sizeof(float) != 0);
}

/* Copies elements that are not aligned, or converts uint8 to int8, the type of the kernels' weights, by subtracting
 * their zero point. */
static inlay_status write_plain(const inlay_compiled *compiled, const cpu_constant *constant, void *out,
                                inlay_diag *diag)
{
    const uint8_t *from = constant->data;

    (void)compiled, (void)diag;
    if (constant->shift == 0) {
        memcpy(out, from, constant->bytes);
        return INLAY_OK;
    }
    for (uint64_t i = 0; i < constant->bytes; i++)
        ((uint8_t *)out)[i] = (uint8_t)(from[i] - constant->shift);
    return INLAY_OK;
}

static void free_low_bit(cpu_constant *constant)
{
    low_bit_destroy(constant->stored.low_bit);
    constant->stored.low_bit = NULL;
}

/* What is done with a constant of a kind. */
struct weight_kind {
    /* Writes the elements, with dense strides, to constant->bytes bytes. */
    inlay_status (*write)(const inlay_compiled *compiled, const cpu_constant *constant, void *out, inlay_diag *diag);
    /* Fills memory of the size of the layout from what the model stores. NULL: never; false: not in this layout; the
     * elements are then written, and reordered. */
    bool (*fill)(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain,
                 const tensor_layout *layout, void *target);
    /* Makes the memory of a pack of another size, and fills it. NULL: it has the size of its layout, and may be in the
     * host's cache. */
    inlay_status (*make)(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain,
                         const tensor_layout *layout, void **out, uint64_t *out_bytes, inlay_diag *diag);
    void (*free)(cpu_constant *constant); /* what the constant owns; NULL: nothing */
    uint32_t source_count;                /* of cpu_constant.sources */
};

static const struct weight_kind kinds[CONSTANT_KINDS] = {
    [CONSTANT_PLAIN] = { .write = write_plain },
    [CONSTANT_SPARSE] = { .write = sparse_unfold, .fill = sparse_pack_entries, .source_count = 2 },
    [CONSTANT_HALVES] = { .write = halves_floats, .source_count = 2 },
    [CONSTANT_BLOCKS] = { .write = blocks_write, .fill = blocks_pack, .source_count = 1 },
    [CONSTANT_LOW_BIT] = { .write = low_bit_floats, .make = low_bit_pack, .free = free_low_bit },
};

static const struct weight_kind *kind_of(const cpu_constant *constant)
{
    static const struct weight_kind dropped = { .write = unpack };

    INLAY_CHECK(constant->kind < CONSTANT_KINDS && (constant->kind == CONSTANT_PLAIN || constant->data == NULL));
    return cpu_constant_is_dropped(constant) ? &dropped : &kinds[constant->kind];
}

void cpu_constant_deinit(cpu_constant *constant)
{
    const struct weight_kind *kind = kind_of(constant);

    while (constant->packs != NULL) {
        cpu_pack *next = constant->packs->next;

        pack_destroy(constant->packs);
        constant->packs = next;
    }
    for (size_t i = 0; i < KIT_COUNT(constant->trusts); i++)
        free(constant->trusts[i]);
    if (kind->free != NULL)
        kind->free(constant);
}

void pack_release_source(const inlay_compiled *compiled, const cpu_constant *constant)
{
    const uint32_t sources = kind_of(constant)->source_count;

    if (compiled->compiling == NULL || compiled->state->constants == NULL)
        return;
    for (uint32_t i = 0; i < sources; i++)
        compiled->state->constants->release(compiled->state->host->ctx, compiled->compiling, constant->sources[i]);
    if (constant->data != NULL)
        compiled->state->constants->release(compiled->state->host->ctx, compiled->compiling, constant->value);
}

/* Reorders a large matrix in slices of rows of the file, and releases the pages of each slice before the next, so that
 * the original and the pack are never both in memory. false: these layouts do not allow it; the
 * caller reorders the whole matrix. */
static bool reorder_slices(const inlay_compiled *compiled, const cpu_constant *constant, const cpu_pack *pack,
                           const void *source)
{
    enum { BLOCK = 64 };
    const int64_t *strides = pack->plain.strides;
    int axis = strides[0] >= strides[1] ? 0 : 1;
    int64_t rows = pack->plain.dims[axis], step;

    if (source != constant->data || constant->bytes < 2 * PACK_SLICE_BYTES || pack->plain.rank != 2 ||
        pack->layout.rank != 2 || pack->plain.kind != LAYOUT_STRIDED || pack->layout.kind != LAYOUT_STRIDED ||
        rows * strides[axis] <= 0)
        return false;
    if (layout_bytes(&pack->layout) > constant->bytes)
        memset(pack->data, 0, layout_bytes(&pack->layout)); /* the padding of blocks */
    step = PACK_SLICE_BYTES / (strides[axis] * (int64_t)sizeof(float)) / BLOCK * BLOCK;
    step = step < BLOCK ? BLOCK : step;
    for (int64_t at = 0; at < rows; at += step) {
        tensor_dims dims = { pack->plain.dims[0], pack->plain.dims[1] }, offsets = { 0, 0 };

        dims[axis] = rows - at < step ? rows - at : step;
        offsets[axis] = at;
        if (!weights_reorder_part(compiled->state, &pack->plain, source, &pack->layout, pack->data, dims, offsets))
            return false;
        pack_release_source(compiled, constant);
    }
    return true;
}

/* Sets *out_source to the original's elements. If they must be copied, *out_copy is the copy, which the caller frees;
 * otherwise it is NULL. */
static inlay_status read_source(const inlay_compiled *compiled, const cpu_constant *constant, const void **out_source,
                                void **out_copy, inlay_diag *diag)
{
    const struct weight_kind *kind = kind_of(constant);
    inlay_status status;

    *out_copy = NULL;
    *out_source = constant->data;
    if (is_in_place(constant))
        return INLAY_OK;
    if (posix_memalign(out_copy, 64, constant->bytes + 64) != 0) {
        *out_copy = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a constant of %llu bytes", (unsigned long long)constant->bytes);
    }
    status = kind->write(compiled, constant, *out_copy, diag);
    *out_source = *out_copy;
    return status;
}

static inlay_status fill_pack(inlay_compiled *compiled, const cpu_constant *constant, cpu_pack *pack, inlay_diag *diag)
{
    const struct weight_kind *kind = kind_of(constant);
    void *unpacked = NULL;
    const void *source;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(pack->data != NULL);
    if (kind->fill != NULL && kind->fill(compiled, constant, &pack->plain, &pack->layout, pack->data))
        goto made;
    INLAY_TRY(read_source(compiled, constant, &source, &unpacked, diag));
    if (layout_equal(&pack->plain, &pack->layout))
        memcpy(pack->data, source, layout_bytes(&pack->layout));
    else if (nbits_is_pack(&pack->layout))
        nbits_pack(compiled->state, source, &pack->layout, pack->data);
    else if (!pack_by_kernel(compiled->state, NULL, &pack->plain, source, &pack->layout, pack->data) &&
             !layout_copy(&pack->plain, source, &pack->layout, pack->data) &&
             !reorder_slices(compiled, constant, pack, source))
        INLAY_TRY(cpu_reorder_now(compiled->state, &pack->plain, source, &pack->layout, pack->data, diag));
made:
    if (pack->hosts)
        compiled->state->packs->keep(compiled->state->host->ctx, compiled->compiling, pack->data);
    pack_release_source(compiled, constant);
done:
    free(unpacked);
    return status;
}

/* Records that the instance being built reads the pack. */
static inlay_status use_pack(cpu_build *build, cpu_pack *pack, const cpu_pack **out_pack)
{
    inlay_instance *instance = build->instance;

    if (!cpu_scratch_grow(instance->memory, &instance->packs, instance->pack_count, &instance->pack_capacity,
                          sizeof(cpu_pack *)))
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to pack a constant");
    instance->packs[instance->pack_count++] = pack;
    (void)__atomic_add_fetch(&pack->users, 1, __ATOMIC_RELAXED);
    *out_pack = pack;
    return INLAY_OK;
}

static cpu_pack *find_pack(const cpu_constant *constant, const tensor_layout *plain, const tensor_layout *layout)
{
    cpu_pack *pack = constant->packs;

    while (pack != NULL && !(layout_equal(&pack->layout, layout) && layout_equal(&pack->plain, plain)))
        pack = pack->next;
    return pack;
}

inlay_status cpu_constant_pack(cpu_build *build, cpu_constant *constant, const tensor_layout *plain,
                               const tensor_layout *layout, const cpu_pack **out_pack)
{
    inlay_compiled *compiled = build->compiled;
    const struct weight_kind *kind = kind_of(constant);
    inlay_diag *diag = build->diag;
    inlay_status status = INLAY_OK;
    bool known = true;
    cpu_pack *pack;

    INLAY_CHECK(constant >= compiled->constants && constant < compiled->constants + compiled->constant_count);
    *out_pack = NULL;
    if (layout_bytes(plain) > constant->bytes) /* expected shapes need not be consistent */
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a constant of %llu bytes is read as one of %llu bytes",
                          (unsigned long long)constant->bytes, (unsigned long long)layout_bytes(plain));
    pack = find_pack(constant, plain, layout);
    if (pack != NULL) {
        pack->trial = pack->trial && compiled->trying;
        return use_pack(build, pack, out_pack);
    }
    pack = calloc(1, sizeof *pack);
    if (pack == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to pack a constant");
    pack->plain = *plain;
    pack->layout = *layout;
    pack->trial = compiled->trying;
    pack->late = compiled->compiling == NULL;
    pack->bytes = layout_bytes(layout);
    if (kind->make != NULL)
        INLAY_TRY(kind->make(compiled, constant, plain, layout, &pack->data, &pack->bytes, diag));
    else
        INLAY_TRY(pack_allocate(compiled, constant, pack, pack->bytes, &known, diag));
    if (!known)
        INLAY_TRY(fill_pack(compiled, constant, pack, diag));
    else
        pack_release_source(compiled, constant); /* the host has read the pages to hash them */
    pack->next = constant->packs;
    constant->packs = pack;
    status = use_pack(build, pack, out_pack);
    pack = NULL;
done:
    pack_destroy(pack);
    return status;
}

inlay_status cpu_constant_accuracy(inlay_compiled *compiled, cpu_constant *constant, const tensor_layout *plain,
                                   int64_t points, winograd_measure *measure, const winograd_accuracy **out_trust,
                                   inlay_diag *diag)
{
    const uint64_t key[] = { constant->content_hash, UINT64_C(0x7472757374000001), (uint64_t)points,
                             (uint64_t)plain->dims[0], (uint64_t)plain->dims[1] };
    const uint64_t bytes = winograd_accuracy_bytes(plain->rank > 1 ? plain->dims[1] : 0);
    winograd_accuracy **known = &constant->trusts[(points - 4) / 2], *trust = NULL;
    const void *source;
    void *copy = NULL, *room;
    bool found;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(points == 4 || points == 6 || points == FFT_POINTS);
    *out_trust = *known;
    if (*known != NULL)
        return INLAY_OK;
    trust = malloc(bytes);
    if (trust == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to measure the accuracy of Winograd's convolution");
    room = cpu_constant_fact(compiled, constant, key, KIT_COUNT(key), bytes, &found);
    if (found) {
        memcpy(trust, room, bytes);
    } else {
        status = read_source(compiled, constant, &source, &copy, diag);
        if (status != INLAY_OK)
            goto done;
        if (!measure(compiled->state, plain, source, points, trust)) {
            status =
                inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to measure the accuracy of Winograd's convolution");
            goto done;
        }
        if (room != NULL) {
            memcpy(room, trust, bytes);
            compiled->state->packs->keep(compiled->state->host->ctx, compiled->compiling, room);
        }
    }
    *out_trust = *known = trust;
    trust = NULL;
done:
    free(trust);
    free(copy);
    return status;
}
