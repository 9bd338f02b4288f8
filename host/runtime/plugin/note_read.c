/* Reads a plugin's ELF file: headers, note, build id, and the libraries that it needs. */
#include "plugin/note.h"
#include "base/memory.h"
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Limits on the data read into memory. Real plugins are far below them. */
enum { MAX_HEADERS = 4096, MAX_NOTE_BYTES = 1 << 20, MAX_DYNAMIC_BYTES = 1 << 20 };

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HOST_ORDER ELFDATA2LSB
#else
#define HOST_ORDER ELFDATA2MSB
#endif
#if UINTPTR_MAX == UINT64_MAX
#define HOST_CLASS ELFCLASS64
#else
#define HOST_CLASS ELFCLASS32
#endif
#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#elif defined(__riscv)
#define HOST_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define HOST_MACHINE EM_PPC64
#elif defined(__s390x__)
#define HOST_MACHINE EM_S390
#elif defined(__i386__)
#define HOST_MACHINE EM_386
#elif defined(__arm__)
#define HOST_MACHINE EM_ARM
#else
#define HOST_MACHINE EM_NONE /* any machine: dlopen() decides */
#endif

static const char *machine_text(unsigned machine, char text[32])
{
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {
        { EM_X86_64, "x86-64" }, { EM_AARCH64, "arm64" }, { EM_386, "32-bit x86" }, { EM_ARM, "32-bit ARM" },
        { EM_RISCV, "RISC-V" },  { EM_PPC64, "ppc64" },   { EM_S390, "s390" },      { EM_MIPS, "MIPS" },
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].machine == machine)
            return names[i].name;
    (void)snprintf(text, 32, "machine %u", machine);
    return text;
}

static inlay_status malformed(inlay_diag *diag, const char *what)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "malformed ELF file: %s; rebuild it or copy it again", what);
}

/* Is [offset, offset + bytes) within the file? */
static bool within(uint64_t offset, uint64_t bytes, uint64_t file_bytes)
{
    return offset <= file_bytes && bytes <= file_bytes - offset;
}

static inlay_status check_header(const GElf_Ehdr *header, uint64_t file_bytes, inlay_diag *diag)
{
    char text[2][32];

    if (header->e_ident[EI_CLASS] != HOST_CLASS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "built for %s-bit programs, but this program is not",
                          header->e_ident[EI_CLASS] == ELFCLASS32 ? "32" : "64");
    if (header->e_ident[EI_DATA] != HOST_ORDER)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "built for machines of the opposite byte order");
    if (HOST_MACHINE != EM_NONE && header->e_machine != HOST_MACHINE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "built for %s, but this machine is %s",
                          machine_text(header->e_machine, text[0]), machine_text(HOST_MACHINE, text[1]));
    if (header->e_type != ET_DYN)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "an ELF file, but not a shared object: link it with -shared");
    if (!within(header->e_shoff, (uint64_t)header->e_shnum * header->e_shentsize, file_bytes))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "truncated: its section headers would end beyond its %llu "
                          "bytes; copy it again",
                          (unsigned long long)file_bytes);
    return INLAY_OK;
}

static inlay_status take_note(const char *data, size_t bytes, note_facts *out, inlay_diag *diag)
{
    uint32_t struct_bytes, at;
    const char *texts[4] = { "", "", "", "" };

    if (out->present)
        return malformed(diag, "two plugin notes");
    if (bytes < sizeof struct_bytes)
        return malformed(diag, "a note without a size");
    memcpy(&struct_bytes, data, sizeof struct_bytes);
    if (struct_bytes < offsetof(inlay_note, text_bytes) + sizeof out->note.text_bytes || struct_bytes > bytes)
        return malformed(diag, "its note's struct_size is out of range");
    memcpy(&out->note, data, struct_bytes < sizeof out->note ? struct_bytes : sizeof out->note);
    if (out->note.text_bytes > bytes - struct_bytes || out->note.text_bytes > sizeof out->text)
        return malformed(diag, "its note's texts are out of range");
    memcpy(out->text, data + struct_bytes, out->note.text_bytes);
    at = 0;
    for (int i = 0; i < 3 || (i == 3 && at < out->note.text_bytes); i++) { /* earlier notes have no version */
        const char *end = memchr(out->text + at, '\0', out->note.text_bytes - at);

        if (end == NULL)
            return malformed(diag, "its note's texts are not terminated");
        texts[i] = out->text + at;
        at = (uint32_t)(end - out->text) + 1;
    }
    for (uint32_t i = 0; i < out->note.text_bytes; i++)
        if (out->text[i] != '\0' && (out->text[i] < ' ' || out->text[i] > '~'))
            return malformed(diag, "its note's texts have characters that are not printable");
    out->name = texts[0];
    out->providers = texts[1];
    out->domains = texts[2];
    out->version = texts[3];
    out->sanitizers |= out->note.sanitizers;
    out->present = true;
    return INLAY_OK;
}

static inlay_status take_notes(Elf *elf, const GElf_Phdr *segment, note_facts *out, inlay_diag *diag)
{
    Elf_Data *data;
    GElf_Nhdr note_header;
    size_t at = 0, next, name, descriptor;

    if (segment->p_filesz > MAX_NOTE_BYTES)
        return malformed(diag, "more than a megabyte of notes");
    data = elf_getdata_rawchunk(elf, (int64_t)segment->p_offset, segment->p_filesz,
                                segment->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
    if (data == NULL)
        return segment->p_filesz == 0 ? INLAY_OK : malformed(diag, "its notes cannot be read");
    while ((next = gelf_getnote(data, at, &note_header, &name, &descriptor)) > 0) {
        const char *base = data->d_buf;

        if (note_header.n_namesz == sizeof INLAY_NOTE_OWNER &&
            memcmp(base + name, INLAY_NOTE_OWNER, note_header.n_namesz) == 0 &&
            note_header.n_type == INLAY_NOTE_PLUGIN) {
            inlay_status status = take_note(base + descriptor, note_header.n_descsz, out, diag);
            if (status != INLAY_OK)
                return status;
        } else if (note_header.n_namesz == 4 && memcmp(base + name, "GNU", 4) == 0 &&
                   note_header.n_type == NT_GNU_BUILD_ID) {
            for (uint32_t i = 0; i < note_header.n_descsz && 2 * i + 2 < sizeof out->build_id; i++)
                (void)snprintf(out->build_id + 2 * (size_t)i, 3, "%02x", (unsigned char)base[descriptor + i]);
        }
        at = next;
    }
    return INLAY_OK;
}

/* The file offset of a virtual address; UINT64_MAX if no segment holds it. */
static uint64_t offset_of(Elf *elf, size_t headers, uint64_t address)
{
    GElf_Phdr segment;

    for (size_t i = 0; i < headers; i++)
        if (gelf_getphdr(elf, (int)i, &segment) != NULL && segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
            address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    return UINT64_MAX;
}

static uint32_t sanitizer_of_library(const char *name)
{
    static const struct {
        const char *stem;
        uint32_t bit;
    } stems[] = { { "libasan.so", INLAY_SANITIZER_ADDRESS },          { "libclang_rt.asan", INLAY_SANITIZER_ADDRESS },
                  { "libtsan.so", INLAY_SANITIZER_THREAD },           { "libclang_rt.tsan", INLAY_SANITIZER_THREAD },
                  { "libclang_rt.msan", INLAY_SANITIZER_MEMORY },     { "libhwasan.so", INLAY_SANITIZER_HWADDRESS },
                  { "libclang_rt.hwasan", INLAY_SANITIZER_HWADDRESS } };

    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++)
        if (strncmp(name, stems[i].stem, strlen(stems[i].stem)) == 0)
            return stems[i].bit;
    return 0;
}

/* Records what a library that the file needs says about the file. A file without a note may still be instrumented. */
static void take_library(const char *name, note_facts *out)
{
    static const char *const openmp[] = { "libomp.so", "libomp5.so", "libiomp5.so" };

    out->sanitizers |= sanitizer_of_library(name);
    out->needs_musl |= strcmp(name, "libc.so") == 0 || strncmp(name, "libc.musl-", 10) == 0;
    for (size_t i = 0; i < sizeof openmp / sizeof openmp[0]; i++)
        if (strncmp(name, openmp[i], strlen(openmp[i])) == 0)
            (void)snprintf(out->openmp, sizeof out->openmp, "%s", name);
}

static void take_libraries(int fd, Elf *elf, size_t headers, const GElf_Phdr *segment, note_facts *out)
{
    Elf_Data *data = NULL;
    uint64_t strings = UINT64_MAX;
    size_t count;
    GElf_Dyn entry;

    if (segment->p_filesz <= MAX_DYNAMIC_BYTES)
        data = elf_getdata_rawchunk(elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_DYN);
    if (data == NULL)
        return; /* dlopen() will report the error */
    count = data->d_size / gelf_fsize(elf, ELF_T_DYN, 1, EV_CURRENT);
    for (size_t i = 0; i < count && gelf_getdyn(data, (int)i, &entry) != NULL && entry.d_tag != DT_NULL; i++)
        if (entry.d_tag == DT_STRTAB)
            strings = offset_of(elf, headers, entry.d_un.d_ptr);
    for (size_t i = 0; i < count && gelf_getdyn(data, (int)i, &entry) != NULL && entry.d_tag != DT_NULL; i++) {
        char name[32] = "";

        if (entry.d_tag != DT_NEEDED || strings > INT64_MAX / 2 || entry.d_un.d_val > INT64_MAX / 2)
            continue;
        if (pread(fd, name, sizeof name - 1, (off_t)(strings + entry.d_un.d_val)) > 0)
            take_library(name, out);
    }
}

static inlay_status read_segments(int fd, Elf *elf, uint64_t file_bytes, note_facts *out, inlay_diag *diag)
{
    size_t headers = 0;
    bool loads = false;
    inlay_status status = INLAY_OK;
    GElf_Phdr segment;

    if (elf_getphdrnum(elf, &headers) != 0 || headers == 0 || headers > MAX_HEADERS)
        return malformed(diag, "it has no program headers, or more than 4096");
    for (size_t i = 0; i < headers; i++) {
        if (gelf_getphdr(elf, (int)i, &segment) == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "truncated: its program headers would end beyond its %llu "
                              "bytes; copy it again",
                              (unsigned long long)file_bytes);
        if (segment.p_type != PT_NULL && segment.p_filesz > 0 &&
            !within(segment.p_offset, segment.p_filesz, file_bytes))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "truncated: segment %zu would end at byte %llu of %llu; "
                              "copy it again",
                              i, (unsigned long long)(segment.p_offset + segment.p_filesz),
                              (unsigned long long)file_bytes);
        loads |= segment.p_type == PT_LOAD;
    }
    if (!loads)
        return malformed(diag, "it has no loadable segment");
    for (size_t i = 0; i < headers && status == INLAY_OK; i++) {
        if (gelf_getphdr(elf, (int)i, &segment) == NULL)
            continue;
        if (segment.p_type == PT_NOTE)
            status = take_notes(elf, &segment, out, diag);
        else if (segment.p_type == PT_DYNAMIC)
            take_libraries(fd, elf, headers, &segment, out);
        else if (segment.p_type == PT_TLS)
            out->tls_bytes = segment.p_memsz;
    }
    return status;
}

inlay_status note_read(int fd, uint64_t file_bytes, note_facts *out, inlay_diag *diag)
{
    GElf_Ehdr header;
    inlay_status status;
    Elf *elf;

    memset(out, 0, sizeof *out);
    out->name = out->providers = out->domains = out->version = "";
    errno = 0;
    (void)elf_version(EV_CURRENT);
    /* Read, not mapped: a file that shrinks during the read must not raise SIGBUS. */
    elf = elf_begin(fd, ELF_C_READ, NULL);
    if (elf == NULL)
        return errno == ENOMEM ? no_memory(diag, "to read an ELF file")
                               : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "cannot be read as an ELF file");
    if (elf_kind(elf) != ELF_K_ELF) {
        (void)elf_end(elf);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "not an ELF file");
    }
    out->is_elf = true;
    if (gelf_getehdr(elf, &header) == NULL)
        status = malformed(diag, "its header cannot be read");
    else
        status = check_header(&header, file_bytes, diag);
    if (status == INLAY_OK)
        status = read_segments(fd, elf, file_bytes, out, diag);
    if (status != INLAY_OK && errno == ENOMEM)
        status = no_memory(diag, "to read an ELF file");
    (void)elf_end(elf);
    return status;
}
