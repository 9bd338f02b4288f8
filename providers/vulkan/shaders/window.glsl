// Filter windows, see vulkan_window: the words from WINDOW_WORDS on, three sizes each.
#define OUT_SIZE (WINDOW_WORDS + 0u)
#define IN_SIZE (WINDOW_WORDS + 3u)
#define WINDOW (WINDOW_WORDS + 6u)
#define STRIDE (WINDOW_WORDS + 9u)
#define DILATION (WINDOW_WORDS + 12u)
#define PAD_BEGIN (WINDOW_WORDS + 15u)
#define PRODUCT_3(k) (word(k) * word((k) + 1u) * word((k) + 2u))
