/* inlay/note.h - the ELF note of a plugin: the facts that the host checks before it runs any code of the plugin.
 *
 * Loading a shared object runs its constructors. A plugin that was built for another ABI, for another CPU or with
 * another sanitizer runtime can crash the process at that point. So a plugin states the facts of its build in section
 * .note.inlay, which the host reads from the file:
 *
 *     INLAY_PLUGIN_NOTE("blur", "blur_gpu blur_cpu", "com.example")
 *
 * at file scope of one source file, next to inlay_plugin_open; KIT_PLUGIN_NAMED of the kit does both. The numbers come
 * from the compiler, so they are always correct. The names come from the author: the host compares them with the result
 * of inlay_plugin_open and rejects the plugin if they differ. A plugin without a note can be loaded, too; then only the
 * probe process (option probe) protects the host from its constructors.
 *
 * In the file the note has the owner "inlay" (name size 6) and type INLAY_NOTE_PLUGIN. Its descriptor is inlay_note,
 * followed at offset struct_size by NUL-terminated texts. Like every struct that starts with struct_size it grows
 * at the end only: a reader uses the fields that struct_size reaches, reads the rest as zero, and finds the texts
 * behind them. After an incompatible change the note has another type. All numbers have the byte order of the file. A
 * host refuses a file with a level, an extension, a sanitizer or one of the low 16 flags that it does not know. */
#ifndef INLAY_NOTE_H
#define INLAY_NOTE_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INLAY_NOTE_SECTION ".note.inlay"
#define INLAY_NOTE_OWNER "inlay"
enum { INLAY_NOTE_PLUGIN = 0x10 }; /* type of the note */

/* Sanitizers that the plugin is instrumented with; the host must have the same runtime. UndefinedBehaviorSanitizer is
 * not listed because it is compatible with every host. */
enum {
    INLAY_SANITIZER_ADDRESS = 1u << 0,
    INLAY_SANITIZER_THREAD = 1u << 1,
    INLAY_SANITIZER_MEMORY = 1u << 2,
    INLAY_SANITIZER_HWADDRESS = 1u << 3
};

/* The threads that the plugin computes on. */
enum {
    INLAY_THREADING_HOST = 0,   /* the calling thread, and inlay_host.parallel_for */
    INLAY_THREADING_OPENMP = 1, /* OpenMP, with libgomp, whose waiting the host configures */
    INLAY_THREADING_OWN = 2     /* threads that the plugin starts, in create or later */
};

/* The instruction-set level that every part of the plugin may use: the one for which the source file with the note was
 * compiled. Code that the plugin selects at run time may use more. The levels of x86-64 are defined by its psABI; other
 * machines have level 0 only. */
enum {
    INLAY_ISA_BASELINE = 0,
    INLAY_ISA_X86_64_V2 = 2, /* SSE4.2, POPCNT */
    INLAY_ISA_X86_64_V3 = 3, /* AVX2, FMA, BMI2, F16C */
    INLAY_ISA_X86_64_V4 = 4  /* AVX-512 F, BW, CD, DQ, VL */
};
/* Instruction-set extensions beyond a level, for instance from -march=native. */
enum {
    INLAY_ISA_AVX512_VNNI = 1u << 0,
    INLAY_ISA_AVX512_BF16 = 1u << 1,
    INLAY_ISA_AVX512_FP16 = 1u << 2,
    INLAY_ISA_AVX512_VBMI = 1u << 3,
    INLAY_ISA_AVX_VNNI = 1u << 4,
    INLAY_ISA_AMX = 1u << 5
};

/* The descriptor of the note. */
typedef struct inlay_note {
    uint32_t struct_size; /* size of this struct when the plugin was compiled; the texts follow */
    uint32_t abi_major;   /* INLAY_ABI_MAJOR and INLAY_ABI_MINOR when the plugin was compiled */
    uint32_t abi_minor;
    /* the oldest minor version of a host on which the plugin runs: INLAY_NOTE_OLDEST_MINOR, by default 0 */
    uint32_t abi_minor_oldest;
    uint32_t isa;        /* INLAY_ISA_BASELINE, INLAY_ISA_X86_64_V2 ... */
    uint32_t isa_extra;  /* INLAY_ISA_AVX512_VNNI ... */
    uint32_t sanitizers; /* INLAY_SANITIZER_* */
    uint32_t threading;  /* INLAY_THREADING_*: INLAY_NOTE_THREADING, by default HOST */
    uint32_t flags;      /* 0 in version 1 */
    /* total size in bytes of the four texts with their NULs: the name of the plugin; the names of its providers,
     * separated by spaces; the domains of its operators, separated by spaces; the version of the plugin,
     * INLAY_NOTE_VERSION. If the first text is empty, the note has no names. If the last text is empty or missing, the
     * version is not known before the plugin is opened. Of two files in one folder with a provider of the same name,
     * the host takes the file with the higher version in its note */
    uint32_t text_bytes;
} inlay_note;

/* A plugin may define these three before it includes this header; see inlay_note. */
#ifndef INLAY_NOTE_OLDEST_MINOR
#define INLAY_NOTE_OLDEST_MINOR 0u
#endif
#ifndef INLAY_NOTE_THREADING
#define INLAY_NOTE_THREADING INLAY_THREADING_HOST
#endif
#ifndef INLAY_NOTE_VERSION
#define INLAY_NOTE_VERSION "" /* inlay_plugin.version, a string literal such as "1.2.0" */
#endif

#if defined(__has_feature)
#define INLAY_NOTE_FEATURE(name) __has_feature(name)
#else
#define INLAY_NOTE_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || INLAY_NOTE_FEATURE(address_sanitizer)
#define INLAY_NOTE_ASAN INLAY_SANITIZER_ADDRESS
#else
#define INLAY_NOTE_ASAN 0u
#endif
#if defined(__SANITIZE_THREAD__) || INLAY_NOTE_FEATURE(thread_sanitizer)
#define INLAY_NOTE_TSAN INLAY_SANITIZER_THREAD
#else
#define INLAY_NOTE_TSAN 0u
#endif
#if INLAY_NOTE_FEATURE(memory_sanitizer)
#define INLAY_NOTE_MSAN INLAY_SANITIZER_MEMORY
#else
#define INLAY_NOTE_MSAN 0u
#endif
#if defined(__SANITIZE_HWADDRESS__) || INLAY_NOTE_FEATURE(hwaddress_sanitizer)
#define INLAY_NOTE_HWASAN INLAY_SANITIZER_HWADDRESS
#else
#define INLAY_NOTE_HWASAN 0u
#endif
#define INLAY_NOTE_SANITIZERS (INLAY_NOTE_ASAN | INLAY_NOTE_TSAN | INLAY_NOTE_MSAN | INLAY_NOTE_HWASAN)

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && defined(__AVX512DQ__) &&                 \
    defined(__AVX512VL__)
#define INLAY_NOTE_ISA INLAY_ISA_X86_64_V4
#elif defined(__AVX__) || defined(__AVX2__) || defined(__FMA__) || defined(__BMI2__) || defined(__F16C__)
#define INLAY_NOTE_ISA INLAY_ISA_X86_64_V3
#elif defined(__x86_64__) && (defined(__SSE4_2__) || defined(__POPCNT__) || defined(__SSSE3__))
#define INLAY_NOTE_ISA INLAY_ISA_X86_64_V2
#else
#define INLAY_NOTE_ISA INLAY_ISA_BASELINE
#endif

#ifdef __AVX512VNNI__
#define INLAY_NOTE_VNNI INLAY_ISA_AVX512_VNNI
#else
#define INLAY_NOTE_VNNI 0u
#endif
#ifdef __AVX512BF16__
#define INLAY_NOTE_BF16 INLAY_ISA_AVX512_BF16
#else
#define INLAY_NOTE_BF16 0u
#endif
#ifdef __AVX512FP16__
#define INLAY_NOTE_FP16 INLAY_ISA_AVX512_FP16
#else
#define INLAY_NOTE_FP16 0u
#endif
#ifdef __AVX512VBMI__
#define INLAY_NOTE_VBMI INLAY_ISA_AVX512_VBMI
#else
#define INLAY_NOTE_VBMI 0u
#endif
#ifdef __AVXVNNI__
#define INLAY_NOTE_AVXVNNI INLAY_ISA_AVX_VNNI
#else
#define INLAY_NOTE_AVXVNNI 0u
#endif
#ifdef __AMX_TILE__
#define INLAY_NOTE_AMX INLAY_ISA_AMX
#else
#define INLAY_NOTE_AMX 0u
#endif
#define INLAY_NOTE_ISA_EXTRA                                                                                           \
    (INLAY_NOTE_VNNI | INLAY_NOTE_BF16 | INLAY_NOTE_FP16 | INLAY_NOTE_VBMI | INLAY_NOTE_AVXVNNI | INLAY_NOTE_AMX)

/* Clang's AddressSanitizer would append a red zone to the note, which would make it invalid. */
#if defined(__clang__)
#define INLAY_NOTE_PLAIN __attribute__((no_sanitize_address))
#else
#define INLAY_NOTE_PLAIN
#endif

/* Defines the note. The texts are string literals, see inlay_note.text_bytes. No semicolon follows. */
#define INLAY_PLUGIN_NOTE(name_, providers_, domains_)                                                                 \
    INLAY_PLUGIN_NOTE_ABI(INLAY_ABI_MAJOR, INLAY_ABI_MINOR, name_, providers_, domains_)

#define INLAY_NOTE_TEXT(name_, providers_, domains_) name_ "\0" providers_ "\0" domains_ "\0" INLAY_NOTE_VERSION

/* Defines the note with a given version of the ABI; for tests. */
#define INLAY_PLUGIN_NOTE_ABI(major_, minor_, name_, providers_, domains_)                                             \
    __attribute__((section(INLAY_NOTE_SECTION), used, aligned(4))) INLAY_NOTE_PLAIN static const struct {              \
        uint32_t owner_bytes, descriptor_bytes, type;                                                                  \
        char owner[8];                                                                                                 \
        inlay_note note;                                                                                               \
        char text[sizeof(INLAY_NOTE_TEXT(name_, providers_, domains_))];                                               \
    } inlay_plugin_note = { sizeof INLAY_NOTE_OWNER,                                                                   \
                            sizeof(inlay_note) + sizeof(INLAY_NOTE_TEXT(name_, providers_, domains_)),                 \
                            INLAY_NOTE_PLUGIN,                                                                         \
                            INLAY_NOTE_OWNER,                                                                          \
                            { sizeof(inlay_note), major_, minor_, INLAY_NOTE_OLDEST_MINOR, INLAY_NOTE_ISA,             \
                              INLAY_NOTE_ISA_EXTRA, INLAY_NOTE_SANITIZERS, INLAY_NOTE_THREADING, 0,                    \
                              sizeof(INLAY_NOTE_TEXT(name_, providers_, domains_)) },                                  \
                            INLAY_NOTE_TEXT(name_, providers_, domains_) };

#ifdef __cplusplus
}
#endif
#endif
