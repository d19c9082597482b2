/* A target needs a source of its own; everything it holds comes from the libraries it links. */
typedef int ls_empty_translation_unit;
