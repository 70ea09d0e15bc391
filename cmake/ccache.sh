#!/bin/sh
# Compiles through ccache so that every checkout and build folder shares one cache, precompiled headers included.
#   ccache.sh CCACHE SOURCE_DIR COMPILER ARGUMENT...
ccache=$1
export CCACHE_BASEDIR="$2" CCACHE_NOHASHDIR=1 # paths below the sources are hashed as relative ones
# What ccache wants to be told before it caches anything with precompiled headers (its manual, "Precompiled headers").
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
# A precompiled header stands for its checksum file, which is made below: it is over 100 MB, and differs whenever it is made again.
export CCACHE_PCH_EXTSUM=1
shift 2

case " $* " in *" c++-header "*) ;; *) exec "$ccache" "$@" ;; esac

# The argument after -o.
previous=
for argument; do
  [ "$previous" = -o ] && output=$argument
  previous=$argument
done
rm -f "$output" "$output.sum" # an old one would be read, and count as an input of the new one
# What is compared is the text after preprocessing with its definitions, without names of folders.
text_of() (
  for argument; do
    shift
    [ "$argument" = "$output" ] && argument=$output.text
    set -- "$@" "$argument"
  done
  exec "$@" -E -P -dD
)
text_of "$@" && sum=$(sha256sum <"$output.text") || exit
rm -f "$output.text"
"$ccache" "$@" && echo "$sum" >"$output.sum"
