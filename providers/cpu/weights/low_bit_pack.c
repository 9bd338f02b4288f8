/* Packs of low-bit constants (low_bit.h), and dequantizing them during a run. */
#include "cpu/weights/low_bit_pack.h"
#include "inlay/host.h"
#include "simd/convert.h"
#include "cpu/weights/packs.h"
#include "cpu/weights/recurrent_panels.h"
#include "cpu/weights/unfold.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(low_bit_destroy, "cpu_narrow");
OPTIONAL_WITH(low_bit_pack, "cpu_narrow");
OPTIONAL_WITH(low_bit_floats, "cpu_narrow");
OPTIONAL_WITH(low_bit_dequantize, "cpu_narrow");
OPTIONAL_WITH(low_bit_codes, "cpu_narrow");
OPTIONAL_WITH(unfold_of_cpu, "cpu_narrow");

enum {
    LANES = UNFOLD_LANES, /* elements of a group, which has a vector of scales and one of zero points */
    CHUNK = 16 * LANES,   /* elements that are dequantized at once */
    SHARE = 64,           /* least chunks for a thread */
    PADDING = 0           /* in arrays of element numbers, which count from 1 */
};

/* The head of a pack. It is followed by the elements, the id of each group of LANES, and the vectors of scales and zero
 * points, which ids index. */
typedef struct pack_head {
    int64_t count;               /* elements, including padding */
    int64_t vectors;             /* of scales */
    uint64_t ids, scales, zeros; /* byte offsets; ids: 0 = one vector for all, zeros: 0 = all zero points are 0 */
    uint64_t bytes;              /* of the pack */
    inlay_dtype dtype;
    bool wide_ids; /* ids have 32 bits, otherwise 16 */
    bool coded;    /* elements and zero points are codes of unfold.h */
} pack_head;

/* The source of elements, scales and zero points: the model's constants, or another pack if they were dropped. */
struct source {
    const struct low_bit_constant *narrow;
    const void *q;
    float *scales, *zeros; /* owned; NULL: in the pack, or no zero points */
    const pack_head *head; /* NULL: the constants are available */
    int32_t *at;           /* [narrow->count] the index of an element in the pack; owned */
    uint32_t bits;
};

static uint32_t get_bits(const void *data, int64_t i, uint32_t bits)
{
    uint16_t word;

    if (bits == 8)
        return ((const uint8_t *)data)[i];
    if (bits == 4)
        return get_u4(data, i);
    if (bits == 2)
        return get_u2(data, i);
    memcpy(&word, (const char *)data + 2 * i, sizeof word);
    return word;
}

const unfold_kernel *unfold_of_cpu(void)
{
    const unfold_kernel *best = KERNEL_BEST(unfold);

    return best->unfold != NULL ? best : NULL; /* unfold_c has no kernels over codes */
}

static bool is_coded(inlay_dtype dtype)
{
    return dtype == INLAY_INT4 || dtype == INLAY_UINT4 || dtype == INLAY_INT8 || dtype == INLAY_UINT8;
}

/* Bits to flip to convert an element to a code of unfold.h. */
static uint32_t flip_of(inlay_dtype dtype)
{
    return dtype == INLAY_INT4 ? 8 : dtype == INLAY_UINT8 ? 128 : 0;
}

/* The number to add to zero points after that conversion. */
static float shift_of(inlay_dtype dtype)
{
    return dtype == INLAY_UINT8 ? -128 : 0;
}

static void set_bits(void *data, int64_t i, uint32_t bits, uint32_t value)
{
    const uint16_t word = (uint16_t)value;

    if (bits == 8)
        ((uint8_t *)data)[i] = (uint8_t)value;
    else if (bits == 4)
        set_u4(data, i, (uint8_t)value);
    else if (bits == 2)
        set_u2(data, i, (uint8_t)value);
    else
        memcpy((char *)data + 2 * i, &word, sizeof word);
}

/* The index of the scale of element i. */
static int64_t scale_of(const struct low_bit_constant *narrow, int64_t i)
{
    const int64_t blocks = (narrow->size + narrow->block - 1) / narrow->block, at = i / narrow->inner % narrow->size;

    if (narrow->single)
        return 0;
    return narrow->scales == narrow->size && narrow->block == 1
               ? at
               : (i / narrow->inner / narrow->size * blocks + at / narrow->block) * narrow->inner + i % narrow->inner;
}

static int64_t id_of(const pack_head *head, int64_t vector)
{
    const char *ids = (const char *)head + head->ids;

    if (head->ids == 0)
        return 0;
    return head->wide_ids ? ((const uint32_t *)(const void *)ids)[vector]
                          : ((const uint16_t *)(const void *)ids)[vector];
}

/* Element i of the DequantizeLinear's input, with its scale and zero point. */
static uint32_t read_element(const struct source *source, int64_t i, float *scale, float *zero)
{
    if (source->head != NULL) {
        const int64_t at = source->at[i], lane = id_of(source->head, at / LANES) * LANES + at % LANES;

        *scale = ((const float *)(const void *)((const char *)source->head + source->head->scales))[lane];
        *zero = source->head->zeros == 0
                    ? 0
                    : ((const float *)(const void *)((const char *)source->head + source->head->zeros))[lane];
        if (!source->head->coded)
            return get_bits(source->head + 1, at, source->bits);
        *zero -= source->head->zeros == 0 ? 0 : shift_of(source->head->dtype);
        return get_bits(source->head + 1, source->bits == 4 ? unfold_place(at) : at, source->bits) ^
               flip_of(source->head->dtype);
    }
    *scale = source->scales[scale_of(source->narrow, i)];
    *zero = source->zeros != NULL ? source->zeros[scale_of(source->narrow, i)] : 0;
    return get_bits(source->q, i, source->bits);
}

static void close_source(struct source *source)
{
    free(source->scales);
    free(source->zeros);
    free(source->at);
}

static inlay_status no_memory(inlay_diag *diag, int64_t count)
{
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "packing a constant of %lld elements", (long long)count);
}

/* The numbers, from 1, of the DequantizeLinear's elements in the order of the constant's elements, after its
 * transposes. NULL: out of memory. The caller frees them. */
static int32_t *number_elements(const inlay_compiled *compiled, const cpu_constant *constant)
{
    const struct low_bit_constant *narrow = constant->stored.low_bit;
    int32_t *numbers = malloc((size_t)narrow->count * sizeof *numbers), *other = NULL;

    INLAY_CHECK(narrow->turn_count <= LOW_BIT_MAX_VIEWS);
    if (numbers == NULL ||
        (narrow->turn_count > 0 && (other = malloc((size_t)narrow->count * sizeof *other)) == NULL)) {
        free(numbers);
        return NULL;
    }
    for (int64_t i = 0; i < narrow->count; i++)
        numbers[i] = (int32_t)(i + 1);
    for (uint32_t turn_index = 0; turn_index < narrow->turn_count; turn_index++) {
        const cpu_op *turn = &compiled->ops[narrow->turns[turn_index]];
        const cpu_value *from = &compiled->values[turn->in[0]];
        int64_t strides[CPU_MAX_RANK], at[CPU_MAX_RANK] = { 0 }, offset = 0, step = 1;
        int32_t *swap;

        for (uint32_t d = from->rank; d-- > 0; step *= from->dims[d])
            strides[d] = step;
        for (int64_t i = 0; i < narrow->count; i++) {
            other[i] = numbers[offset];
            for (uint32_t d = from->rank; d-- > 0;) {
                const int32_t axis = turn->perm[d];

                offset += strides[axis];
                if (++at[d] < from->dims[axis])
                    break;
                offset -= at[d] * strides[axis];
                at[d] = 0;
            }
        }
        swap = numbers;
        numbers = other;
        other = swap;
    }
    free(other);
    return numbers;
}

/* The element numbers in the order of layout packed; PADDING for its padding. The caller frees *out. */
static inlay_status order_elements(const inlay_compiled *compiled, const cpu_constant *constant,
                                   const tensor_layout *plain, const tensor_layout *packed, int32_t **out,
                                   inlay_diag *diag)
{
    const int64_t count = (int64_t)(layout_bytes(packed) / sizeof(int32_t));
    int32_t *numbers = number_elements(compiled, constant), *laid = NULL;
    inlay_status status = INLAY_OK;
    int64_t found = 0;

    if (numbers == NULL || posix_memalign((void **)&laid, 64, (size_t)count * sizeof *laid + 64) != 0) {
        laid = NULL;
        status = no_memory(diag, count);
        goto done;
    }
    if (recurrent_is_pack(packed))
        recurrent_reorder_panels(packed, numbers, laid);
    else if (layout_equal(plain, packed))
        memcpy(laid, numbers, (size_t)count * sizeof *laid);
    else if (!layout_copy(plain, numbers, packed, laid))
        INLAY_TRY(cpu_reorder_now(compiled->state, plain, numbers, packed, laid, diag));
    for (int64_t i = 0; i < count; i++) {
        if (laid[i] < 0 || laid[i] > constant->stored.low_bit->count)
            status = INLAY_INTERNAL;
        found += laid[i] != PADDING;
    }
    if (status != INLAY_OK || found != layout_count(plain))
        status = inlay_fail(diag, INLAY_INTERNAL, "a packed layout is not a permutation of elements");
    if (status == INLAY_OK) {
        *out = laid;
        laid = NULL;
    }
done:
    free(numbers);
    free(laid);
    return status;
}

static inlay_status to_floats(const cpu_constant *from, inlay_dtype dtype, int64_t count, float **out, inlay_diag *diag)
{
    const size_t bytes = ((size_t)count * inlay_dtype_bits(dtype) + 7) / 8;
    void *aligned = dtype == INLAY_FLOAT ? NULL : malloc(bytes); /* files do not align elements */

    *out = malloc((size_t)count * sizeof **out);
    if (*out == NULL || (dtype != INLAY_FLOAT && aligned == NULL)) {
        free(aligned);
        return no_memory(diag, count); /* the caller frees *out */
    }
    if (aligned == NULL)
        memcpy(*out, from->data, bytes);
    else
        convert_to_f32(*out, dtype, memcpy(aligned, from->data, bytes), 0, count);
    free(aligned);
    return INLAY_OK;
}

static inlay_status open_source(const inlay_compiled *compiled, const cpu_constant *constant, struct source *source,
                                inlay_diag *diag)
{
    const struct low_bit_constant *narrow = constant->stored.low_bit;
    const cpu_pack *pack = constant->packs;
    inlay_status status = INLAY_OK;
    int32_t *laid = NULL;

    *source = (struct source){ .narrow = narrow,
                               .q = compiled->constants[narrow->q].data,
                               .bits = inlay_dtype_bits(narrow->dtype) };
    if (source->q != NULL && compiled->constants[narrow->scale].data != NULL) {
        INLAY_TRY(to_floats(&compiled->constants[narrow->scale], INLAY_FLOAT, narrow->scales, &source->scales, diag));
        if (narrow->zero != INLAY_NONE)
            INLAY_TRY(
                to_floats(&compiled->constants[narrow->zero], narrow->dtype, narrow->scales, &source->zeros, diag));
        return INLAY_OK;
    }
    /* Otherwise the source is the pack of another view of the same constant. */
    for (uint32_t i = 0; pack == NULL && i < compiled->constant_count; i++)
        if (low_bit_is_of(&compiled->constants[i], narrow->maker)) {
            constant = &compiled->constants[i];
            pack = constant->packs;
        }
    INLAY_CHECK(pack != NULL); /* low_bit_mark_packed() */
    source->head = pack->data;
    INLAY_TRY(order_elements(compiled, constant, &pack->plain, &pack->layout, &laid, diag));
    source->at = malloc((size_t)narrow->count * sizeof *source->at);
    if (source->at == NULL) {
        status = no_memory(diag, narrow->count);
        goto done;
    }
    for (int64_t i = 0; i < source->head->count; i++)
        if (laid[i] != PADDING)
            source->at[laid[i] - 1] = (int32_t)i;
done:
    free(laid);
    if (status != INLAY_OK)
        close_source(source);
    return status;
}

static uint32_t hash_of(const float *lanes)
{
    uint64_t hash = 0;
    uint32_t words[2 * LANES];

    memcpy(words, lanes, sizeof words);
    for (int i = 0; i < 2 * LANES; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32);
}

/* The set of different vectors of scales and zero points: an array with a hash table. */
struct vectors {
    float *lanes; /* [capacity][2 * LANES] */
    uint32_t count, capacity;
    uint32_t *table; /* [slots] 1 + index of a vector, 0 = free */
    uint32_t slots;
    bool zeros;
};

/* Makes room for one more vector; false: out of memory. */
static bool make_room(struct vectors *vectors)
{
    uint32_t slots = vectors->slots * 2 < 64 ? 64 : vectors->slots * 2, *table;

    if (!cpu_grow(&vectors->lanes, vectors->count, &vectors->capacity, 2 * LANES * sizeof *vectors->lanes))
        return false;
    if (vectors->count * 2 < vectors->slots)
        return true;
    table = calloc(slots, sizeof *table);
    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < vectors->slots; i++)
        if (vectors->table[i] != 0) {
            uint32_t at = hash_of(vectors->lanes + (size_t)(vectors->table[i] - 1) * 2 * LANES);

            while (table[at % slots] != 0)
                at++;
            table[at % slots] = vectors->table[i];
        }
    free(vectors->table);
    vectors->table = table;
    vectors->slots = slots;
    return true;
}

/* The index of a vector, which is added if it is new; UINT32_MAX: out of memory. */
static uint32_t find_vector(struct vectors *vectors, const float *lanes)
{
    uint32_t at;

    if (!make_room(vectors))
        return UINT32_MAX;
    at = hash_of(lanes);
    for (; vectors->table[at % vectors->slots] != 0; at++)
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): by bits */
        if (memcmp(vectors->lanes + (size_t)(vectors->table[at % vectors->slots] - 1) * 2 * LANES, lanes,
                   2 * LANES * sizeof *lanes) == 0)
            return vectors->table[at % vectors->slots] - 1;
    memcpy(vectors->lanes + (size_t)vectors->count * 2 * LANES, lanes, 2 * LANES * sizeof *lanes);
    vectors->table[at % vectors->slots] = ++vectors->count;
    return vectors->count - 1;
}

/* A constant that is being packed. */
struct packing {
    struct vectors vectors;
    uint32_t *ids; /* [count / LANES] the vector of each group */
    int32_t *laid; /* [count] element numbers in the order of the layout */
    struct source from;
    int64_t count;
};

static void end_packing(struct packing *packing)
{
    close_source(&packing->from);
    free(packing->vectors.lanes);
    free(packing->vectors.table);
    free(packing->ids);
    free(packing->laid);
}

/* Finds the vector of each group. */
static inlay_status find_vectors(struct packing *packing, inlay_diag *diag)
{
    const int64_t groups = (packing->count + LANES - 1) / LANES;

    packing->ids = malloc((size_t)groups * sizeof *packing->ids);
    if (packing->ids == NULL)
        return no_memory(diag, packing->count);
    for (int64_t g = 0; g < groups; g++) {
        float lanes[2 * LANES] = { 0 };

        for (int64_t i = g * LANES; i < (g + 1) * LANES && i < packing->count; i++)
            if (packing->laid[i] != PADDING)
                (void)read_element(&packing->from, packing->laid[i] - 1, &lanes[i % LANES], &lanes[LANES + i % LANES]);
        for (int l = 0; l < LANES; l++)
            packing->vectors.zeros |= lanes[LANES + l] != 0;
        packing->ids[g] = find_vector(&packing->vectors, lanes);
        if (packing->ids[g] == UINT32_MAX)
            return no_memory(diag, packing->count);
    }
    return INLAY_OK;
}

static void fill_pack(const struct packing *packing, pack_head *head)
{
    const int64_t groups = (head->count + LANES - 1) / LANES;
    char *at = (char *)head;

    INLAY_CHECK(head->count == packing->count && head->vectors <= packing->vectors.count);
    memset(head + 1, 0, head->bytes - sizeof *head);
    for (int64_t i = 0; i < head->count; i++) {
        float scale, zero;

        if (packing->laid[i] != PADDING)
            set_bits(head + 1, head->coded && packing->from.bits == 4 ? unfold_place(i) : i, packing->from.bits,
                     read_element(&packing->from, packing->laid[i] - 1, &scale, &zero) ^
                         (head->coded ? flip_of(head->dtype) : 0));
    }
    for (int64_t g = 0; head->ids != 0 && g < groups; g++)
        if (head->wide_ids)
            ((uint32_t *)(void *)(at + head->ids))[g] = packing->ids[g];
        else
            ((uint16_t *)(void *)(at + head->ids))[g] = (uint16_t)packing->ids[g];
    for (int64_t v = 0; v < head->vectors; v++) {
        memcpy(at + head->scales + (size_t)v * LANES * sizeof(float), packing->vectors.lanes + v * 2 * LANES,
               LANES * sizeof(float));
        for (int l = 0; head->zeros != 0 && l < LANES; l++)
            ((float *)(void *)(at + head->zeros))[v * LANES + l] =
                packing->vectors.lanes[v * 2 * LANES + LANES + l] + (head->coded ? shift_of(head->dtype) : 0);
    }
}

inlay_status low_bit_pack(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain,
                          const tensor_layout *packed, void **out, uint64_t *out_bytes, inlay_diag *diag)
{
    struct packing packing = { .count = (int64_t)(layout_bytes(packed) / sizeof(float)) };
    const uint64_t groups = (uint64_t)(packing.count + LANES - 1) / LANES;
    pack_head head = { .count = packing.count, .dtype = constant->stored.low_bit->dtype, .bytes = sizeof head };
    inlay_status status = INLAY_OK;

    *out = NULL;
    INLAY_TRY(open_source(compiled, constant, &packing.from, diag));
    INLAY_TRY(order_elements(compiled, constant, plain, packed, &packing.laid, diag));
    INLAY_TRY(find_vectors(&packing, diag));
    head.vectors = packing.vectors.count;
    head.wide_ids = head.vectors > UINT16_MAX + 1;
    (void)packs_reserve(&head.bytes, (groups * LANES * packing.from.bits + 7) / 8);
    head.ids = head.vectors > 1
                   ? packs_reserve(&head.bytes, groups * (head.wide_ids ? sizeof(uint32_t) : sizeof(uint16_t)))
                   : 0;
    head.scales = packs_reserve(&head.bytes, (uint64_t)head.vectors * LANES * sizeof(float));
    head.coded = is_coded(head.dtype) && !head.wide_ids && unfold_of_cpu() != NULL;
    head.zeros = packing.vectors.zeros || (head.coded && shift_of(head.dtype) != 0)
                     ? packs_reserve(&head.bytes, (uint64_t)head.vectors * LANES * sizeof(float))
                     : 0;
    if (posix_memalign(out, 64, head.bytes) != 0) {
        *out = NULL;
        status = no_memory(diag, packing.count);
        goto done;
    }
    memcpy(*out, &head, sizeof head);
    fill_pack(&packing, *out);
    *out_bytes = head.bytes;
done:
    end_packing(&packing);
    return status;
}

inlay_status low_bit_floats(const inlay_compiled *compiled, const cpu_constant *constant, void *out, inlay_diag *diag)
{
    const int64_t count = constant->stored.low_bit->count;
    inlay_status status = INLAY_OK;
    int32_t *numbers = NULL;
    struct source source = { 0 };

    INLAY_CHECK((uint64_t)count * sizeof(float) <= constant->bytes);
    INLAY_TRY(open_source(compiled, constant, &source, diag));
    numbers = number_elements(compiled, constant);
    if (numbers == NULL) {
        status = no_memory(diag, count);
        goto done;
    }
    for (int64_t i = 0; i < count; i++) {
        float scale, zero, x;
        uint32_t bits = read_element(&source, numbers[i] - 1, &scale, &zero);

        convert_to_f32(&x, constant->stored.low_bit->dtype, &bits, 0, 1);
        ((float *)out)[i] = (x - zero) * scale;
    }
done:
    free(numbers);
    close_source(&source);
    return status;
}

/* low_bit_dequantize for types that unfold.h does not support. */
static void unfold_by_conversion(const pack_head *head, int64_t first, int64_t last, float *out)
{
    const float *scales = (const float *)(const void *)((const char *)head + head->scales);
    const float *zeros = head->zeros == 0 ? NULL : (const float *)(const void *)((const char *)head + head->zeros);

    for (int64_t at = first; at < last; at += CHUNK) {
        const int64_t count = last - at < CHUNK ? last - at : CHUNK;
        float x[CHUNK], rest[CHUNK], *output = count % LANES == 0 ? out + (at - first) : rest;
        uint32_t ids[LANES];

        for (int64_t g = 0; g < LANES; g++)
            ids[g] = g * LANES < count ? (uint32_t)id_of(head, at / LANES + g) : 0;
        convert_to_f32(x, head->dtype, head + 1, at, count);
        KERNEL_BEST(unfold)->scale(x, output, count, ids, scales, zeros);
        if (output == rest)
            memcpy(out + (at - first), rest, (size_t)count * sizeof *out);
    }
}

bool low_bit_codes(const void *pack, unfold_codes *out)
{
    const pack_head *head = pack;
    const char *at = pack;
    static const uint16_t first = 0;

    *out = (unfold_codes){ .data = (const uint8_t *)(head + 1),
                           .bits = inlay_dtype_bits(head->dtype),
                           .least = head->dtype == INLAY_INT4 ? -8 : 0,
                           .ids = head->ids == 0 ? &first : (const uint16_t *)(const void *)(at + head->ids),
                           .id_step = head->ids != 0,
                           .scales = (const float *)(const void *)(at + head->scales),
                           .zeros = head->zeros == 0 ? NULL : (const float *)(const void *)(at + head->zeros) };
    return head->coded;
}

void low_bit_dequantize(const void *pack, int64_t first, int64_t last, float *out)
{
    const int64_t whole = last - (last - first) % LANES;
    float rest[LANES];
    unfold_codes codes;

    INLAY_CHECK(first % LANES == 0 && first <= last && last <= ((const pack_head *)pack)->count);
    if (!low_bit_codes(pack, &codes)) {
        unfold_by_conversion(pack, first, last, out);
        return;
    }
    unfold_of_cpu()->unfold(&codes, first, whole, out);
    if (whole < last) {
        unfold_of_cpu()->unfold(&codes, whole, whole + LANES, rest);
        memcpy(out + (whole - first), rest, (size_t)(last - whole) * sizeof *out);
    }
}

struct unfolding {
    const pack_head *pack;
    float *out;
};

static inlay_status dequantize_chunks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct unfolding *unfolding = user;

    (void)worker;
    low_bit_dequantize(unfolding->pack, begin * CHUNK,
                       end * CHUNK < unfolding->pack->count ? end * CHUNK : unfolding->pack->count,
                       unfolding->out + begin * CHUNK);
    return INLAY_OK;
}

inlay_status low_bit_run_dequantize(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                    uint32_t threads)
{
    struct unfolding unfolding = { .pack = args[0], .out = args[1] };
    const int64_t chunks = (unfolding.pack->count + CHUNK - 1) / CHUNK;

    (void)native;
    if (threads <= 1 || chunks < 2 * SHARE)
        return dequantize_chunks(&unfolding, 0, chunks, 0);
    return state->host->parallel_for(state->host->ctx, run, chunks, SHARE, dequantize_chunks, &unfolding);
}

uint64_t low_bit_pack_bytes(const void *pack)
{
    return ((const pack_head *)pack)->bytes;
}

void low_bit_destroy(struct low_bit_constant *narrow)
{
    free(narrow);
}
