/* Packs of narrow constants (narrow.h): elements in the order of a layout, and the floats that a run makes of them. */
#include "weights/narrow_pack.h"
#include "simd/convert.h"
#include "weights/unfold.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(narrow_destroy, "rg_narrow");
OPTIONAL_WITH(narrow_pack, "rg_narrow");
OPTIONAL_WITH(narrow_floats, "rg_narrow");
OPTIONAL_WITH(narrow_unfold, "rg_narrow");
OPTIONAL_WITH(narrow_codes, "rg_narrow");
OPTIONAL_WITH(unfold_of_cpu, "rg_narrow");

enum {
    LANES = UF_LANES,   /* elements that have a vector of scales and one of zero points in a pack */
    CHUNK = 16 * LANES, /* elements that become floats at a time, and then are scaled */
    SHARE = 64,         /* chunks that are worth a thread */
    PADDING = 0         /* numbers of elements count from 1 */
};

/* A pack: this, then the elements, a number for each LANES of them, and the vectors that those count. */
typedef struct pack_head {
    int64_t count;                      /* of elements with what pads them */
    int64_t vectors;                    /* of scales */
    uint64_t ids, scales, zeros, bytes; /* where they are; ids: 0 = there is one vector, zeros: 0 = all are 0 */
    inlay_dtype dtype;
    bool wide_ids; /* of 32 bits, otherwise of 16 */
    bool coded;    /* elements and zero points are as unfold.h has codes */
} pack_head;

/* Where elements, scales and zero points come from: the file, or another pack when the file's have gone. */
struct source {
    const struct narrow *n;
    const void *q;
    float *scales, *zeros; /* owned; NULL: of the pack, none */
    const pack_head *head;
    int32_t *at; /* of the pack: [count] where an element is; owned */
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

    return best == &unfold_c ? NULL : best; /* which has no loops of its own */
}

static bool is_coded(inlay_dtype t)
{
    return t == INLAY_INT4 || t == INLAY_UINT4 || t == INLAY_INT8 || t == INLAY_UINT8;
}

/* What is turned in the codes of a type to make them those of unfold.h. */
static uint32_t flip_of(inlay_dtype t)
{
    return t == INLAY_INT4 ? 8 : t == INLAY_UINT8 ? 128 : 0;
}

/* What that adds to zero points. */
static float shift_of(inlay_dtype t)
{
    return t == INLAY_UINT8 ? -128 : 0;
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

static int64_t scale_of(const struct narrow *n, int64_t i)
{
    const int64_t blocks = (n->size + n->block - 1) / n->block, at = i / n->inner % n->size;

    if (n->single)
        return 0;
    return n->scales == n->size && n->block == 1
               ? at
               : (i / n->inner / n->size * blocks + at / n->block) * n->inner + i % n->inner;
}

static int64_t id_of(const pack_head *h, int64_t vector)
{
    const char *ids = (const char *)h + h->ids;

    if (h->ids == 0)
        return 0;
    return h->wide_ids ? ((const uint32_t *)(const void *)ids)[vector] : ((const uint16_t *)(const void *)ids)[vector];
}

/* Element i as the DequantizeLinear counts. */
static uint32_t element(const struct source *s, int64_t i, float *scale, float *zero)
{
    if (s->head != NULL) {
        const int64_t at = s->at[i], lane = id_of(s->head, at / LANES) * LANES + at % LANES;

        *scale = ((const float *)(const void *)((const char *)s->head + s->head->scales))[lane];
        *zero = s->head->zeros == 0 ? 0 : ((const float *)(const void *)((const char *)s->head + s->head->zeros))[lane];
        if (!s->head->coded)
            return get_bits(s->head + 1, at, s->bits);
        *zero -= s->head->zeros == 0 ? 0 : shift_of(s->head->dtype);
        return get_bits(s->head + 1, s->bits == 4 ? uf_place(at) : at, s->bits) ^ flip_of(s->head->dtype);
    }
    *scale = s->scales[scale_of(s->n, i)];
    *zero = s->zeros != NULL ? s->zeros[scale_of(s->n, i)] : 0;
    return get_bits(s->q, i, s->bits);
}

static void close_source(struct source *s)
{
    free(s->scales);
    free(s->zeros);
    free(s->at);
}

static inlay_status no_memory(inlay_diag *diag, int64_t count)
{
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "packing a constant of %lld elements", (long long)count);
}

/* Numbers of the DequantizeLinear's elements, from 1, in the order in which the constant has them. NULL: no memory. */
static int32_t *number_elements(const inlay_compiled *c, const rg_constant *k)
{
    const struct narrow *n = k->narrow;
    int32_t *numbers = malloc((size_t)n->count * sizeof *numbers), *other = NULL;

    if (numbers == NULL || (n->turn_count > 0 && (other = malloc((size_t)n->count * sizeof *other)) == NULL)) {
        free(numbers);
        return NULL;
    }
    for (int64_t i = 0; i < n->count; i++)
        numbers[i] = (int32_t)(i + 1);
    for (uint32_t t = 0; t < n->turn_count; t++) {
        const rg_op *turn = &c->ops[n->turns[t]];
        const rg_value *from = &c->values[turn->in[0]];
        int64_t strides[RG_MAX_RANK], at[RG_MAX_RANK] = { 0 }, offset = 0, step = 1;
        int32_t *swap;

        for (uint32_t d = from->rank; d-- > 0; step *= from->dims[d])
            strides[d] = step;
        for (int64_t i = 0; i < n->count; i++) {
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

/* The numbers in the order of a layout, PADDING where there is no element. */
static inlay_status lay_out(const inlay_compiled *c, const rg_constant *k, const rg_md *plain, const rg_md *md,
                            int32_t **out, inlay_diag *diag)
{
    const int64_t count = (int64_t)(rg_md_bytes(md) / sizeof(int32_t));
    int32_t *numbers = number_elements(c, k), *laid = NULL;
    inlay_status status = INLAY_OK;
    int64_t there = 0;

    if (numbers == NULL || posix_memalign((void **)&laid, 64, (size_t)count * sizeof *laid + 64) != 0) {
        laid = NULL;
        status = no_memory(diag, count);
        goto done;
    }
    if (recurrent_is_pack(md))
        recurrent_lay(md, numbers, laid);
    else if (rg_md_equal(plain, md))
        memcpy(laid, numbers, (size_t)count * sizeof *laid);
    else if (!rg_md_copy(plain, numbers, md, laid))
        INLAY_TRY(rg_reorder_now(c->state, plain, numbers, md, laid, diag));
    for (int64_t i = 0; i < count; i++) {
        if (laid[i] < 0 || laid[i] > k->narrow->count)
            status = INLAY_INTERNAL;
        there += laid[i] != PADDING;
    }
    if (status != INLAY_OK || there != rg_md_count(plain))
        status = inlay_fail(diag, INLAY_INTERNAL, "a layout does not only move elements");
    *out = laid;
    laid = status == INLAY_OK ? NULL : laid;
done:
    free(numbers);
    free(laid);
    return status;
}

static inlay_status to_floats(const rg_constant *from, inlay_dtype dtype, int64_t count, float **out, inlay_diag *diag)
{
    const size_t bytes = ((size_t)count * inlay_dtype_bits(dtype) + 7) / 8;
    void *aligned = dtype == INLAY_FLOAT ? NULL : malloc(bytes); /* the file has it at any address */

    *out = malloc((size_t)count * sizeof **out);
    if (*out == NULL || (dtype != INLAY_FLOAT && aligned == NULL)) {
        free(aligned);
        return no_memory(diag, count); /* *out is the caller's */
    }
    if (aligned == NULL)
        memcpy(*out, from->data, bytes);
    else
        convert_to_f32(*out, dtype, memcpy(aligned, from->data, bytes), 0, count);
    free(aligned);
    return INLAY_OK;
}

static inlay_status open_source(const inlay_compiled *c, const rg_constant *k, struct source *s, inlay_diag *diag)
{
    const struct narrow *n = k->narrow;
    const rg_pack *pack = k->packs;
    inlay_status status = INLAY_OK;
    int32_t *laid = NULL;

    *s = (struct source){ .n = n, .q = c->constants[n->q].data, .bits = inlay_dtype_bits(n->dtype) };
    if (s->q != NULL && c->constants[n->scale].data != NULL) {
        INLAY_TRY(to_floats(&c->constants[n->scale], INLAY_FLOAT, n->scales, &s->scales, diag));
        if (n->zero != INLAY_NONE)
            INLAY_TRY(to_floats(&c->constants[n->zero], n->dtype, n->scales, &s->zeros, diag));
        return INLAY_OK;
    }
    for (uint32_t i = 0; pack == NULL && i < c->constant_count; i++) /* of another view of the same */
        if (c->constants[i].narrow != NULL && c->constants[i].narrow->maker == n->maker) {
            k = &c->constants[i];
            pack = k->packs;
        }
    if (pack == NULL)
        return inlay_fail(diag, INLAY_INTERNAL, "a constant that was dropped is needed again");
    s->head = pack->data;
    INLAY_TRY(lay_out(c, k, &pack->plain, &pack->md, &laid, diag));
    s->at = malloc((size_t)n->count * sizeof *s->at);
    if (s->at == NULL) {
        status = no_memory(diag, n->count);
        goto done;
    }
    for (int64_t i = 0; i < s->head->count; i++)
        if (laid[i] != PADDING)
            s->at[laid[i] - 1] = (int32_t)i;
done:
    free(laid);
    if (status != INLAY_OK)
        close_source(s);
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

/* Vectors of scales and zero points, each once. */
struct vectors {
    float *lanes; /* [capacity][2 * LANES] */
    uint32_t count, capacity;
    uint32_t *table; /* [slots] numbers from 1, 0 = free */
    uint32_t slots;
    bool zeros;
};

static bool make_room(struct vectors *v)
{
    uint32_t slots = v->slots * 2 < 64 ? 64 : v->slots * 2, *table;

    if (!rg_grow(&v->lanes, v->count, &v->capacity, 2 * LANES * sizeof *v->lanes))
        return false;
    if (v->count * 2 < v->slots)
        return true;
    table = calloc(slots, sizeof *table);
    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < v->slots; i++)
        if (v->table[i] != 0) {
            uint32_t at = hash_of(v->lanes + (size_t)(v->table[i] - 1) * 2 * LANES);

            while (table[at % slots] != 0)
                at++;
            table[at % slots] = v->table[i];
        }
    free(v->table);
    v->table = table;
    v->slots = slots;
    return true;
}

/* The number of a vector; UINT32_MAX: no memory. */
static uint32_t find_vector(struct vectors *v, const float *lanes)
{
    uint32_t at;

    if (!make_room(v))
        return UINT32_MAX;
    at = hash_of(lanes);
    for (; v->table[at % v->slots] != 0; at++)
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): by bits */
        if (memcmp(v->lanes + (size_t)(v->table[at % v->slots] - 1) * 2 * LANES, lanes, 2 * LANES * sizeof *lanes) == 0)
            return v->table[at % v->slots] - 1;
    memcpy(v->lanes + (size_t)v->count * 2 * LANES, lanes, 2 * LANES * sizeof *lanes);
    v->table[at % v->slots] = ++v->count;
    return v->count - 1;
}

struct packing {
    struct vectors v;
    uint32_t *ids; /* [count / LANES] */
    int32_t *laid;
    struct source from;
    int64_t count;
};

static void end_packing(struct packing *p)
{
    close_source(&p->from);
    free(p->v.lanes);
    free(p->v.table);
    free(p->ids);
    free(p->laid);
}

/* Which vector each LANES elements have. */
static inlay_status find_vectors(struct packing *p, inlay_diag *diag)
{
    const int64_t groups = (p->count + LANES - 1) / LANES;

    p->ids = malloc((size_t)groups * sizeof *p->ids);
    if (p->ids == NULL)
        return no_memory(diag, p->count);
    for (int64_t g = 0; g < groups; g++) {
        float lanes[2 * LANES] = { 0 };

        for (int64_t i = g * LANES; i < (g + 1) * LANES && i < p->count; i++)
            if (p->laid[i] != PADDING)
                (void)element(&p->from, p->laid[i] - 1, &lanes[i % LANES], &lanes[LANES + i % LANES]);
        for (int l = 0; l < LANES; l++)
            p->v.zeros |= lanes[LANES + l] != 0;
        p->ids[g] = find_vector(&p->v, lanes);
        if (p->ids[g] == UINT32_MAX)
            return no_memory(diag, p->count);
    }
    return INLAY_OK;
}

static uint64_t reserve(uint64_t *bytes, uint64_t more)
{
    const uint64_t at = *bytes;

    *bytes += (more + 63) / 64 * 64;
    return at;
}

static void fill_pack(const struct packing *p, pack_head *h)
{
    const int64_t groups = (h->count + LANES - 1) / LANES;
    char *at = (char *)h;

    memset(h + 1, 0, h->bytes - sizeof *h);
    for (int64_t i = 0; i < h->count; i++) {
        float scale, zero;

        if (p->laid[i] != PADDING)
            set_bits(h + 1, h->coded && p->from.bits == 4 ? uf_place(i) : i, p->from.bits,
                     element(&p->from, p->laid[i] - 1, &scale, &zero) ^ (h->coded ? flip_of(h->dtype) : 0));
    }
    for (int64_t g = 0; h->ids != 0 && g < groups; g++)
        if (h->wide_ids)
            ((uint32_t *)(void *)(at + h->ids))[g] = p->ids[g];
        else
            ((uint16_t *)(void *)(at + h->ids))[g] = (uint16_t)p->ids[g];
    for (int64_t v = 0; v < h->vectors; v++) {
        memcpy(at + h->scales + (size_t)v * LANES * sizeof(float), p->v.lanes + v * 2 * LANES, LANES * sizeof(float));
        for (int l = 0; h->zeros != 0 && l < LANES; l++)
            ((float *)(void *)(at + h->zeros))[v * LANES + l] =
                p->v.lanes[v * 2 * LANES + LANES + l] + (h->coded ? shift_of(h->dtype) : 0);
    }
}

inlay_status narrow_pack(const inlay_compiled *c, const rg_constant *k, const rg_md *plain, const rg_md *md, void **out,
                         inlay_diag *diag)
{
    struct packing p = { .count = (int64_t)(rg_md_bytes(md) / sizeof(float)) };
    const uint64_t groups = (uint64_t)(p.count + LANES - 1) / LANES;
    pack_head h = { .count = p.count, .dtype = k->narrow->dtype, .bytes = sizeof h };
    inlay_status status = INLAY_OK;

    *out = NULL;
    INLAY_TRY(open_source(c, k, &p.from, diag));
    INLAY_TRY(lay_out(c, k, plain, md, &p.laid, diag));
    INLAY_TRY(find_vectors(&p, diag));
    h.vectors = p.v.count;
    h.wide_ids = h.vectors > UINT16_MAX + 1;
    (void)reserve(&h.bytes, (groups * LANES * p.from.bits + 7) / 8);
    h.ids = h.vectors > 1 ? reserve(&h.bytes, groups * (h.wide_ids ? sizeof(uint32_t) : sizeof(uint16_t))) : 0;
    h.scales = reserve(&h.bytes, (uint64_t)h.vectors * LANES * sizeof(float));
    h.coded = is_coded(h.dtype) && !h.wide_ids && unfold_of_cpu() != NULL;
    h.zeros = p.v.zeros || (h.coded && shift_of(h.dtype) != 0)
                  ? reserve(&h.bytes, (uint64_t)h.vectors * LANES * sizeof(float))
                  : 0;
    if (posix_memalign(out, 64, h.bytes) != 0) {
        *out = NULL;
        status = no_memory(diag, p.count);
        goto done;
    }
    memcpy(*out, &h, sizeof h);
    fill_pack(&p, *out);
done:
    end_packing(&p);
    return status;
}

inlay_status narrow_floats(const inlay_compiled *c, const rg_constant *k, void **out, inlay_diag *diag)
{
    const int64_t count = k->narrow->count;
    inlay_status status = INLAY_OK;
    int32_t *numbers = NULL;
    struct source s = { 0 };

    *out = NULL;
    INLAY_TRY(open_source(c, k, &s, diag));
    numbers = number_elements(c, k);
    if (numbers == NULL || posix_memalign(out, 64, (size_t)count * sizeof(float) + 64) != 0) {
        *out = NULL;
        status = no_memory(diag, count);
        goto done;
    }
    for (int64_t i = 0; i < count; i++) {
        float scale, zero, x;
        uint32_t bits = element(&s, numbers[i] - 1, &scale, &zero);

        convert_to_f32(&x, k->narrow->dtype, &bits, 0, 1);
        ((float *)*out)[i] = (x - zero) * scale;
    }
done:
    free(numbers);
    close_source(&s);
    return status;
}

/* ------------------------------------------------------------------ the run */

/* Of types that unfold.h has no loops for. */
static void unfold_odd(const pack_head *h, int64_t first, int64_t last, float *out)
{
    const float *scales = (const float *)(const void *)((const char *)h + h->scales);
    const float *zeros = h->zeros == 0 ? NULL : (const float *)(const void *)((const char *)h + h->zeros);

    for (int64_t at = first; at < last; at += CHUNK) {
        const int64_t count = last - at < CHUNK ? last - at : CHUNK;
        float x[CHUNK], rest[CHUNK], *y = count % LANES == 0 ? out + (at - first) : rest;
        uint32_t ids[LANES];

        for (int64_t g = 0; g < LANES; g++)
            ids[g] = g * LANES < count ? (uint32_t)id_of(h, at / LANES + g) : 0;
        convert_to_f32(x, h->dtype, h + 1, at, count);
        KERNEL_BEST(unfold)->scale(x, y, count, ids, scales, zeros);
        if (y == rest)
            memcpy(out + (at - first), rest, (size_t)count * sizeof *out);
    }
}

bool narrow_codes(const void *pack, uf_codes *out)
{
    const pack_head *h = pack;
    const char *at = pack;
    static const uint16_t first = 0;

    *out = (uf_codes){ .data = (const uint8_t *)(h + 1),
                       .bits = inlay_dtype_bits(h->dtype),
                       .least = h->dtype == INLAY_INT4 ? -8 : 0,
                       .ids = h->ids == 0 ? &first : (const uint16_t *)(const void *)(at + h->ids),
                       .id_step = h->ids != 0,
                       .scales = (const float *)(const void *)(at + h->scales),
                       .zeros = h->zeros == 0 ? NULL : (const float *)(const void *)(at + h->zeros) };
    return h->coded;
}

void narrow_unfold(const void *pack, int64_t first, int64_t last, float *out)
{
    const int64_t whole = last - (last - first) % LANES;
    float rest[LANES];
    uf_codes codes;

    if (!narrow_codes(pack, &codes)) {
        unfold_odd(pack, first, last, out);
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

static inlay_status some_chunks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct unfolding *u = user;

    (void)worker;
    narrow_unfold(u->pack, begin * CHUNK, end * CHUNK < u->pack->count ? end * CHUNK : u->pack->count,
                  u->out + begin * CHUNK);
    return INLAY_OK;
}

inlay_status narrow_run_unfold(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    struct unfolding u = { .pack = args[0], .out = args[1] };
    const int64_t chunks = (u.pack->count + CHUNK - 1) / CHUNK;

    (void)native;
    if (threads <= 1 || chunks < 2 * SHARE)
        return some_chunks(&u, 0, chunks, 0);
    return state->host->parallel_for(state->host->ctx, run, chunks, SHARE, some_chunks, &u);
}

uint64_t narrow_pack_bytes(const void *pack)
{
    return ((const pack_head *)pack)->bytes;
}

void narrow_destroy(struct narrow *n)
{
    free(n);
}
