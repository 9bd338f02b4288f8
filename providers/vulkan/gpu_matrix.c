/* Cooperative matrices: VK_KHR_cooperative_matrix, which has no definitions in the headers of Debian 12 (1.3.239), and
 * which Debian 12's glslang does not write. */
#include "inlay/check.h"
#include "vulkan/gpu.h"
#include <string.h>

typedef struct matrix_features {
    VkStructureType type; /* 1000506000 */
    void *next;
    VkBool32 cooperative_matrix, robust_buffer_access;
} matrix_features;

typedef struct matrix_properties {
    VkStructureType type; /* 1000506001 */
    void *next;
    uint32_t rows, columns, depth;
    int32_t type_of_a, type_of_b, type_of_c, result_type; /* VkComponentTypeKHR */
    VkBool32 saturating;
    int32_t scope; /* VkScopeKHR */
} matrix_properties;

enum { FEATURES = 1000506000, PROPERTIES, SUBGROUP_SCOPE = 3, MAX_PROPERTIES = 64 };
enum { FLOAT16 = 0, FLOAT32 = 1, INT8 = 3, INT32 = 5 }; /* VkComponentTypeKHR */
typedef VkResult(VKAPI_PTR *get_properties_fn)(VkPhysicalDevice, uint32_t *, matrix_properties *);

_Static_assert(sizeof(matrix_features) <= sizeof(gpu_matrix_features), "the opaque struct is too small");

void *gpu_matrix_ask(const gpu_functions *vk, VkPhysicalDevice device, bool want, gpu_matrix_features *features)
{
    const matrix_features asked = { .type = (VkStructureType)FEATURES, .cooperative_matrix = want };

    memset(features, 0, sizeof *features);
    memcpy(features, &asked, sizeof asked);
    return gpu_has_extension(vk, device, GPU_MATRIX_EXTENSION) ? features : NULL;
}

/* Whether a kind of matrices is square, of these types and at most `depth` deep. */
static bool is_usable(const matrix_properties *found, int32_t factors, int32_t sums, uint32_t depth)
{
    return found->type_of_a == factors && found->type_of_b == factors && found->type_of_c == sums &&
           found->result_type == sums && !found->saturating && found->scope == SUBGROUP_SCOPE &&
           found->rows == found->columns && found->rows <= 16 && found->rows % 8 == 0 && found->depth <= depth &&
           found->depth % 8 == 0;
}

void gpu_matrix_find(const gpu_functions *vk, VkInstance instance, const gpu_matrix_features *features,
                     gpu_facts *facts)
{
    matrix_properties list[MAX_PROPERTIES];
    uint32_t count = MAX_PROPERTIES;
    PFN_vkVoidFunction entry = vk->GetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    get_properties_fn get_properties;
    matrix_features have;

    memcpy(&get_properties, &entry, sizeof get_properties);
    memcpy(&have, features, sizeof have);
    if (!have.cooperative_matrix || entry == NULL)
        return;
    for (uint32_t i = 0; i < MAX_PROPERTIES; i++)
        list[i] = (matrix_properties){ .type = (VkStructureType)PROPERTIES };
    if (get_properties(facts->physical, &count, list) < VK_SUCCESS)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const matrix_properties *found = &list[i];

        /* GPU_MATRIX_SHARED_BYTES holds for sizes up to 16, and units of eight elements divide them. */
        if (is_usable(found, FLOAT16, FLOAT32, 16) && found->rows > facts->matrix_size) {
            facts->matrix_size = found->rows;
            facts->matrix_depth = found->depth;
        }
        if (is_usable(found, INT8, INT32, 32) && found->rows > facts->byte_matrix_size) {
            facts->byte_matrix_size = found->rows;
            facts->byte_matrix_depth = found->depth;
        }
    }
}

/* SPIR-V, by number: SPV_NV_cooperative_matrix and SPV_KHR_cooperative_matrix. */
enum {
    SPV_HEADER = 5,
    SPV_EXTENSION = 10,
    SPV_CAPABILITY = 17,
    SPV_TYPE_INT = 21,
    SPV_CONSTANT_TRUE = 41,
    SPV_CONSTANT = 43,
    NV_CAPABILITY = 5357,
    NV_TYPE = 5358,
    NV_LOAD,
    NV_STORE,
    NV_MUL_ADD,
    KHR_CAPABILITY = 6022,
    KHR_TYPE = 4456,
    KHR_LOAD,
    KHR_STORE,
    KHR_MUL_ADD,
    ALL_SIGNED = 15 /* operands and result */
};

/* The ids that the conversion needs. */
struct ids {
    uint32_t uint_type, size, true_constant;
    uint32_t byte_type; /* signed 8-bit integers */
    bool integers;      /* matrices are of these */
    uint32_t numbers;   /* of the constants 0, 1 and 2, which are added */
};

static struct ids find_ids(const uint32_t *words, uint32_t count)
{
    struct ids ids = { .numbers = words[3] };

    for (uint32_t at = SPV_HEADER, length; at < count; at += length) {
        const uint32_t *in = &words[at];

        length = in[0] >> 16;
        INLAY_CHECK(length > 0);
        switch (in[0] & 0xffffu) {
        case SPV_TYPE_INT:
            ids.uint_type = in[2] == 32 && in[3] == 0 ? in[1] : ids.uint_type;
            ids.byte_type = in[2] == 8 && in[3] == 1 ? in[1] : ids.byte_type;
            break;
        case SPV_CONSTANT_TRUE:
            ids.true_constant = in[2];
            break;
        case NV_TYPE: /* sums have as many rows as columns */
            ids.size = in[4] == in[5] ? in[4] : ids.size;
            ids.integers = ids.integers || in[2] == ids.byte_type;
            break;
        default:
            break;
        }
    }
    return ids;
}

/* Where a matrix is used: MatrixAKHR 0, MatrixBKHR 1, MatrixAccumulatorKHR 2. in: its type. */
static uint32_t use_of(const uint32_t *in, const struct ids *ids)
{
    return in[4] == in[5] ? 2 : in[4] == ids->size ? 0 : 1;
}

/* Loads and stores: stride and column-major become layout and stride. k: index of the stride. */
static void swap_layout(uint32_t *out, uint32_t k, const struct ids *ids)
{
    const uint32_t stride = out[k];

    out[k] = ids->numbers + (out[k + 1] == ids->true_constant ? 1 : 0); /* RowMajorKHR 0, ColumnMajorKHR 1 */
    out[k + 1] = stride;
}

uint32_t gpu_matrix_convert(const uint32_t *words, uint32_t count, uint32_t *out)
{
    static const char old_name[] = "SPV_NV_cooperative_matrix", new_name[] = "SPV_KHR_cooperative_matrix";
    const struct ids ids = find_ids(words, count);
    bool has_numbers = false;
    uint32_t used = SPV_HEADER;

    memcpy(out, words, SPV_HEADER * sizeof *out);
    out[3] += 3;
    for (uint32_t at = SPV_HEADER, length; at < count; at += length) {
        const uint32_t *in = &words[at], op = in[0] & 0xffffu;
        uint32_t *to = &out[used];

        length = in[0] >> 16;
        if (op == NV_TYPE && !has_numbers) {
            out[1] = 0x10600; /* subgroups are full from SPIR-V 1.6 on */
            for (uint32_t number = 0; number < 3; number++, used += 4)
                memcpy(&out[used],
                       (const uint32_t[]){ 4u << 16 | SPV_CONSTANT, ids.uint_type, ids.numbers + number, number },
                       4 * sizeof *out);
            has_numbers = true;
            to = &out[used];
        }
        memcpy(to, in, length * sizeof *to);
        used += length;
        switch (op) {
        case SPV_EXTENSION:
            if (strcmp((const char *)&in[1], old_name) == 0)
                memcpy(&to[1], new_name, sizeof new_name); /* both take seven words */
            break;
        case SPV_CAPABILITY:
            to[1] = in[1] == NV_CAPABILITY ? KHR_CAPABILITY : in[1];
            break;
        case NV_TYPE:
            to[0] = 7u << 16 | KHR_TYPE;
            to[6] = ids.numbers + use_of(in, &ids);
            used++;
            break;
        case NV_LOAD:
            to[0] = length << 16 | KHR_LOAD;
            swap_layout(to, 4, &ids);
            break;
        case NV_STORE:
            to[0] = length << 16 | KHR_STORE;
            swap_layout(to, 3, &ids);
            break;
        case NV_MUL_ADD:
            to[0] = (length + ids.integers) << 16 | KHR_MUL_ADD;
            if (ids.integers)
                out[used++] = ALL_SIGNED;
            break;
        default:
            break;
        }
    }
    return used;
}
