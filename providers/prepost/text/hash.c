/* hash.c - onnxruntime-extensions' StringToHashBucketFast: FarmHash's Fingerprint64, which has the same value on every
 * CPU. StringToHashBucket is not supported: it uses FarmHash's Hash64, whose values depend on the CPU. Functions are
 * named after those of FarmHash. */
#include "prepost/prepost.h"
#include "inlay/check.h"

static const uint64_t k0 = UINT64_C(0xc3a5c85c97cb3127), k1 = UINT64_C(0xb492b66fbe98f273),
                      k2 = UINT64_C(0x9ae16a3b2f90404f);

struct pair {
    uint64_t a, b;
};

/* Read little-endian numbers from any address, on every CPU. */
static uint64_t read64(const unsigned char *bytes)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static uint64_t read32(const unsigned char *bytes)
{
    return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[3] << 24;
}

static uint64_t rotate(uint64_t value, int bits)
{
    return value >> bits | value << (64 - bits);
}

static uint64_t shift_mix(uint64_t value)
{
    return value ^ value >> 47;
}

static uint64_t hash_len_16(uint64_t u, uint64_t v, uint64_t mul)
{
    const uint64_t a = shift_mix((u ^ v) * mul);

    return shift_mix((v ^ a) * mul) * mul;
}

static uint64_t hash_len_0_to_16(const unsigned char *s, uint64_t n)
{
    const uint64_t mul = k2 + n * 2;

    INLAY_CHECK(n <= 16);
    if (n >= 8) {
        const uint64_t a = read64(s) + k2, b = read64(s + n - 8);

        return hash_len_16(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul);
    }
    if (n >= 4)
        return hash_len_16(n + (read32(s) << 3), read32(s + n - 4), mul);
    if (n > 0)
        return shift_mix((s[0] + ((uint64_t)s[n >> 1] << 8)) * k2 ^ (n + ((uint64_t)s[n - 1] << 2)) * k0) * k2;
    return k2;
}

static uint64_t hash_len_17_to_32(const unsigned char *s, uint64_t n)
{
    const uint64_t mul = k2 + n * 2, a = read64(s) * k1, b = read64(s + 8), c = read64(s + n - 8) * mul;

    INLAY_CHECK(n > 16 && n <= 32);
    return hash_len_16(rotate(a + b, 43) + rotate(c, 30) + read64(s + n - 16) * k2, a + rotate(b + k2, 18) + c, mul);
}

static uint64_t hash_len_33_to_64(const unsigned char *s, uint64_t n)
{
    const uint64_t mul = k2 + n * 2, a = read64(s) * k2, b = read64(s + 8), c = read64(s + n - 8) * mul;
    const uint64_t y = rotate(a + b, 43) + rotate(c, 30) + read64(s + n - 16) * k2,
                   z = hash_len_16(y, a + rotate(b + k2, 18) + c, mul);
    const uint64_t e = read64(s + 16) * mul, f = read64(s + 24), g = (y + read64(s + n - 32)) * mul;

    INLAY_CHECK(n > 32 && n <= 64);
    return hash_len_16(rotate(e + f, 43) + rotate(g, 30) + (z + read64(s + n - 24)) * mul, e + rotate(f + a, 18) + g,
                       mul);
}

static struct pair weak_hash_32(const unsigned char *s, uint64_t a, uint64_t b)
{
    uint64_t c;

    a += read64(s);
    b = rotate(b + a + read64(s + 24), 21);
    c = a;
    a += read64(s + 8) + read64(s + 16);
    b += rotate(a, 44);
    return (struct pair){ a + read64(s + 24), b + c };
}

static uint64_t fingerprint(const unsigned char *s, uint64_t n)
{
    uint64_t x = 81, y = 81 * k1 + 113, z = shift_mix(y * k2 + 113) * k2, mul = k1, left = (n - 1) / 64;
    const unsigned char *last;
    struct pair pair = { 0, 0 }, w = { 0, 0 };

    if (n <= 16)
        return hash_len_0_to_16(s, n);
    if (n <= 32)
        return hash_len_17_to_32(s, n);
    if (n <= 64)
        return hash_len_33_to_64(s, n);
    last = s + n - 64;
    x = x * k2 + read64(s);
    for (bool end = false;; left--) { /* blocks of 64 bytes, then the last 64 bytes */
        uint64_t swap;

        x = rotate(x + y + pair.a + read64(s + 8), 37) * mul;
        y = rotate(y + pair.b + read64(s + 48), 42) * mul;
        x ^= end ? w.b * 9 : w.b;
        y += (end ? pair.a * 9 : pair.a) + read64(s + 40);
        z = rotate(z + w.a, 33) * mul;
        pair = weak_hash_32(s, pair.b * mul, x + w.a);
        w = weak_hash_32(s + 32, z + w.b, y + read64(s + 16));
        swap = z;
        z = x;
        x = swap;
        if (end)
            break;
        if (left == 1) {
            end = true;
            mul = k1 + ((z & 0xff) << 1);
            w.a += (n - 1) & 63;
            pair.a += w.a;
            w.a += pair.a;
            s = last;
        } else {
            s += 64;
        }
    }
    INLAY_CHECK(s == last && left == 0);
    return hash_len_16(hash_len_16(pair.a, w.a, mul) + shift_mix(y) * k0 + z, hash_len_16(pair.b, w.b, mul) + x, mul);
}

static void cost_hash(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 300, 30, 16);
}

static inlay_status run_hash(const kit_call *call)
{
    const inlay_str *string = call->in[0].data;
    const int64_t *buckets = call->in[1].data;
    inlay_status status;

    if (call->in[1].count != 1 || *buckets < 1)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                          "StringToHashBucketFast: num_buckets must be one integer, 1 or more");
    status = kit_alloc_output(call, 0, call->in[0].rank, call->in[0].dims);
    for (int64_t i = 0; status == INLAY_OK && i < call->in[0].count; i++)
        ((int64_t *)call->out[0].data)[i] =
            (int64_t)(fingerprint((const unsigned char *)string[i].data, string[i].bytes) % (uint64_t)*buckets);
    return status;
}

static const int64_t one_dims[] = { 1 }, three_dims[] = { 3 }, three[] = { 3 }, bucket[] = { 0, 2, 2 };
static const inlay_str words[] = { PREPOST_STR("Hello"), PREPOST_STR("TensorFlow"), PREPOST_STR("2.x") };
static const inlay_tensor_view words_in[] = { PREPOST_VIEW(words, three_dims, INLAY_STRING),
                                              PREPOST_VIEW(three, one_dims, INLAY_INT64) };
static const inlay_tensor_view bucket_out[] = { PREPOST_VIEW(bucket, three_dims, INLAY_INT64) };
static const inlay_op_example hash_examples[] = {
    { .name = "the example of TensorFlow's documentation",
      .attr_stride = sizeof(inlay_attr_info),
      .inputs = words_in,
      .input_count = KIT_COUNT(words_in),
      .outputs = bucket_out,
      .output_count = KIT_COUNT(bucket_out) },
};

const prepost_operator prepost_hash = {
    .op_type = "StringToHashBucketFast",
    .signature = "input:S, num_buckets:I -> output:I; S=string, I=int64",
    .doc = "FarmHash's Fingerprint64 of each text, modulo num_buckets.",
    .extensions = true,
    .infer = prepost_infer_same,
    PREPOST_EXAMPLES(hash_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN, .cost = cost_hash, .run = run_hash },
};
