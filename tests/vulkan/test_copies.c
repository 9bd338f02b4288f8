/* Copies on a device whose memory the host cannot map: each list of copies is one submission, and uploads have a queue
 * of their own, or at least commands and a semaphore. Uses only the gpu_*.c files of the provider, with the injected
 * fault that separates the memory. */
#include "vulkan/region.h"
#include "cmocka_all.h"
#include <stdlib.h>

static gpu_device *open_apart(void)
{
    const gpu_options options = { .device = "auto", .fault = GPU_FAULT_SEPARATE_MEMORY, .cache_dir = "" };
    inlay_diag diag = INLAY_DIAG_INIT;
    gpu_device *device = NULL;

    if (gpu_open(&options, &device, &diag) != INLAY_OK) {
        print_message("skipped: %s\n", diag.text);
        skip();
    }
    return device;
}

static uint8_t *bytes_of(size_t count, uint32_t seed)
{
    uint8_t *data = malloc(count);

    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = (uint8_t)((i * 31 + seed * 7) >> (i % 3));
    return data;
}

enum { COUNT = 5 };

/* Copies to the device, from the first to the last buffer there, and back; checks the number of submissions of each. */
static void round_trip(const uint64_t sizes[COUNT], uint64_t most_up, uint64_t most_down)
{
    gpu_device *device = open_apart();
    inlay_diag diag = INLAY_DIAG_INIT;
    gpu_buffer buffers[COUNT];
    gpu_copy up[COUNT], down[COUNT];
    uint8_t *sent[COUNT], *got[COUNT];
    uint64_t before;

    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(gpu_buffer_create(device, sizes[i], &buffers[i], &diag), INLAY_OK);
        assert_null(buffers[i].mapped);
        sent[i] = bytes_of(sizes[i], i);
        got[i] = calloc(1, sizes[i]);
        up[i] = (gpu_copy){ .to = &buffers[i], .host = sent[i], .bytes = sizes[i] };
        down[i] = (gpu_copy){ .from = &buffers[i], .host = got[i], .bytes = sizes[i] };
    }
    before = device->uploads.lane.last_submitted;
    assert_int_equal(gpu_copy_list(device, up, COUNT, &diag), INLAY_OK);
    assert_in_range(device->uploads.lane.last_submitted - before, 1, most_up);
    before = device->lane.last_submitted;
    assert_int_equal(gpu_copy_list(device, down, COUNT, &diag), INLAY_OK);
    assert_in_range(device->lane.last_submitted - before, 1, most_down);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_memory_equal(got[i], sent[i], sizes[i]);
    down[0] = (gpu_copy){ .from = &buffers[0], .to = &buffers[1], .to_at = 16, .bytes = 64 };
    assert_int_equal(gpu_copy_list(device, down, 1, &diag), INLAY_OK);
    assert_int_equal(gpu_copy_list(device, down + 1, 1, &diag), INLAY_OK);
    assert_memory_equal(got[1], sent[1], 16);
    assert_memory_equal(got[1] + 16, sent[0], 64);
    for (uint32_t i = 0; i < COUNT; i++) {
        gpu_buffer_destroy(device, &buffers[i]);
        free(sent[i]);
        free(got[i]);
    }
    gpu_close(device);
}

static void several_are_one_submission(void **state)
{
    (void)state;
    round_trip((const uint64_t[COUNT]){ 4096, 100, 70000, 256, 1 << 20 }, 1, 1);
}

/* Copies 40 MiB through 16 MiB of staging memory. */
static void more_than_the_staging_memory(void **state)
{
    (void)state;
    round_trip((const uint64_t[COUNT]){ 4096, 40 << 20, 70001, 256, 77 }, 3, 3);
}

/* A wrapped buffer has the same address, and survives the wrapper. */
static void buffers_are_borrowed(void **state)
{
    gpu_device *device = open_apart();
    inlay_diag diag = INLAY_DIAG_INIT;
    uint8_t *sent = bytes_of(512, 3), got[512] = { 0 };
    gpu_buffer own, other;

    (void)state;
    assert_int_equal(gpu_buffer_create(device, 512, &own, &diag), INLAY_OK);
    gpu_buffer_wrap(device, own.buffer, 512, &other);
    assert_true(other.address == own.address);
    assert_int_equal(gpu_write(device, &other, 0, sent, 512, &diag), INLAY_OK);
    gpu_buffer_destroy(device, &other);
    assert_int_equal(gpu_copy_list(device, &(gpu_copy){ .from = &own, .host = got, .bytes = 512 }, 1, &diag), INLAY_OK);
    assert_memory_equal(got, sent, 512);
    gpu_buffer_destroy(device, &own);
    free(sent);
    gpu_close(device);
}

/* Uploads that are written later are one submission. They may replace one another, and a buffer may be destroyed before
 * its uploads are submitted. */
static void later_uploads_are_collected(void **state)
{
    enum { PIECES = 40, BYTES = 3000 };
    gpu_device *device = open_apart();
    inlay_diag diag = INLAY_DIAG_INIT;
    uint8_t *sent = bytes_of(PIECES * BYTES, 5), *got = calloc(PIECES, BYTES);
    gpu_buffer buffer, dropped;

    (void)state;
    assert_int_equal(gpu_buffer_create(device, PIECES * BYTES, &buffer, &diag), INLAY_OK);
    assert_int_equal(gpu_buffer_create(device, 64, &dropped, &diag), INLAY_OK);
    for (uint32_t i = 0; i < PIECES; i++)
        assert_int_equal(gpu_write_later(device, &buffer, i * BYTES, sent + i * BYTES, BYTES, &diag), INLAY_OK);
    assert_int_equal(device->uploads.lane.last_submitted, 0);
    assert_int_equal(gpu_copy_list(device, NULL, 0, &diag), INLAY_OK);
    assert_int_equal(device->uploads.lane.last_submitted, 1);
    for (uint32_t i = 0; i < 3; i++) { /* each into another half of staging memory, or after a wait */
        memset(sent + 100, (int)i, 200);
        assert_int_equal(gpu_write(device, &buffer, 100, sent + 100, 200, &diag), INLAY_OK);
    }
    assert_int_equal(device->uploads.lane.last_submitted, 4);
    assert_int_equal(
        gpu_copy_list(device, &(gpu_copy){ .from = &buffer, .host = got, .bytes = PIECES * BYTES }, 1, &diag),
        INLAY_OK);
    assert_memory_equal(got, sent, PIECES * BYTES);
    assert_int_equal(device->uploads.waited, 4); /* the copy to the host waited for the uploads */
    assert_int_equal(gpu_write_later(device, &dropped, 0, sent, 64, &diag), INLAY_OK);
    gpu_buffer_destroy(device, &dropped);
    assert_int_equal(device->uploads.lane.last_submitted, 5);
    gpu_buffer_destroy(device, &buffer);
    free(sent);
    free(got);
    gpu_close(device);
}

/* Families as drivers list them: shaders take the first that has them, uploads one for transfers alone. */
static void uploads_take_a_family_for_transfers(void **state)
{
    enum {
        ALL = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT,
        SHADERS = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT,
        TRANSFER = VK_QUEUE_TRANSFER_BIT,
        SPARSE = VK_QUEUE_SPARSE_BINDING_BIT,
        VIDEO = 0x20,
        FLOW = 0x100
    };
    static const struct {
        VkQueueFlags flags[6];
        uint32_t count, shaders, transfers;
    } rows[] = {
        { { ALL }, 1, 0, 1 }, /* a CPU driver, Intel */
        { { ALL | SPARSE, TRANSFER | SPARSE, SHADERS | SPARSE, TRANSFER | VIDEO, TRANSFER | FLOW }, 5, 0, 1 },
        { { ALL, SHADERS, TRANSFER | VIDEO, TRANSFER | SPARSE }, 4, 0, 3 },
        { { VK_QUEUE_GRAPHICS_BIT, TRANSFER | VIDEO, SHADERS }, 3, 2, 3 },
        { { TRANSFER }, 1, 1, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        VkQueueFamilyProperties families[6] = { 0 };
        uint32_t shaders, transfers;

        for (uint32_t k = 0; k < rows[i].count; k++)
            families[k].queueFlags = rows[i].flags[k];
        gpu_choose_families(families, rows[i].count, &shaders, &transfers);
        assert_int_equal(shaders, rows[i].shaders);
        assert_int_equal(transfers, rows[i].transfers);
    }
}

static uint64_t said_left; /* by the driver, of every heap */

static void VKAPI_CALL say_left(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *out)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = out->pNext;

    (void)device;
    assert_int_equal(budget->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
    for (uint32_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) {
        budget->heapUsage[i] = 1 << 20;
        budget->heapBudget[i] = budget->heapUsage[i] + said_left;
    }
}

/* Drivers allocate more than they say is left, so the provider refuses it. */
static void no_more_than_is_left(void **state)
{
    gpu_device *device = open_apart();
    inlay_diag diag = INLAY_DIAG_INIT;
    gpu_buffer buffer;

    (void)state;
    device->facts.has_budget = true;
    device->vk.GetPhysicalDeviceMemoryProperties2 = say_left;
    said_left = 65536;
    assert_int_equal(gpu_buffer_create(device, 65536, &buffer, &diag), INLAY_OK);
    gpu_buffer_destroy(device, &buffer);
    assert_int_equal(gpu_buffer_create(device, 65536 + 4096, &buffer, &diag), INLAY_OUT_OF_MEMORY);
    if (strstr(diag.text, "has 65536 of 69632 bytes left for this process") == NULL)
        fail_msg("%s", diag.text);
    said_left += 4096;
    assert_int_equal(gpu_buffer_create(device, 65536 + 4096, &buffer, &diag), INLAY_OK);
    gpu_buffer_destroy(device, &buffer);
    gpu_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_than_is_left),         cmocka_unit_test(several_are_one_submission),
        cmocka_unit_test(later_uploads_are_collected),  cmocka_unit_test(uploads_take_a_family_for_transfers),
        cmocka_unit_test(more_than_the_staging_memory), cmocka_unit_test(buffers_are_borrowed)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
