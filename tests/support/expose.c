/* expose: copies an object file and makes its hidden symbols visible
 *
 *   expose OUTPUT INPUT.o
 *
 * The host is compiled with hidden symbols, but tests call its functions. The copies export them from a shared library
 * with the same machine code. For 64-bit ELF in the byte order of the build machine. */
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool expose(unsigned char *bytes, size_t size)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)bytes;
    Elf64_Shdr *sections;

    if (size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_REL)
        return false;
    sections = (Elf64_Shdr *)(void *)(bytes + header->e_shoff);
    for (size_t i = 0; i < (header->e_shnum ? header->e_shnum : sections[0].sh_size); i++) {
        Elf64_Sym *symbols = (Elf64_Sym *)(void *)(bytes + sections[i].sh_offset);

        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        for (size_t symbol = 0; symbol < sections[i].sh_size / sizeof(*symbols); symbol++) {
            if (ELF64_ST_BIND(symbols[symbol].st_info) == STB_GLOBAL &&
                ELF64_ST_VISIBILITY(symbols[symbol].st_other) == STV_HIDDEN)
                symbols[symbol].st_other &= (unsigned char)~3;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    FILE *input = argc == 3 ? fopen(argv[2], "rb") : NULL;
    FILE *output = argc == 3 ? fopen(argv[1], "wb") : NULL;
    unsigned char *bytes = NULL;
    long size = -1;
    bool good = input && output && fseek(input, 0, SEEK_END) == 0 && (size = ftell(input)) > 0;

    if (good) {
        rewind(input);
        bytes = malloc((size_t)size);
        good = bytes && fread(bytes, 1, (size_t)size, input) == (size_t)size && expose(bytes, (size_t)size) &&
               fwrite(bytes, 1, (size_t)size, output) == (size_t)size;
    }
    free(bytes);
    if (input)
        fclose(input);
    if (output && fclose(output) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "expose: usage: expose OUTPUT INPUT.o, a 64-bit object file\n");
    return good ? 0 : 1;
}
