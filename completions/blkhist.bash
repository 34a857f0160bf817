# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Completion for blkhist(8). It has no lists of its own: commands, options and what options take are
# read from `blkhist help` and `blkhist COMMAND --help`, names of devices from /sys.

# Words that begin as the current one does.
_blkhist_words()
{
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

# The same for a list with commas, of which the last item is not complete.
_blkhist_list()
{
	local before='' word
	[[ $cur != *,* ]] || before=${cur%,*},
	for word in $1; do
		[[ ,$before != *,"$word",* && $word == "${cur##*,}"* ]] && COMPREPLY+=("$before$word")
	done
}

_blkhist_files()
{
	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen -"$1" -- "$cur")
}

# Disks and partitions; '/' in a name is '!' in /sys.
_blkhist_devices()
{
	local -a names=(/sys/class/block/*)
	names=("${names[@]##*/}")
	printf '%s ' "${names[@]//!//}"
}

# What the help of a command says: operands, and for each option what it takes and which values.
_blkhist_read_help()
{
	local line letter name value text
	while IFS= read -r line; do
		if [[ $line == Usage:* ]]; then
			operands=$line
		elif [[ $line =~ ^\ \ (-([a-zA-Z]),\ |\ {4})--([a-z-]+)(\ ([^ ]+))?(.*) ]]; then
			letter=${BASH_REMATCH[2]} name=--${BASH_REMATCH[3]}
			value=${BASH_REMATCH[5]} text=${BASH_REMATCH[6]}
			takes[$name]=''
			[[ -z $letter ]] || letters[-$letter]=$name
			# Of an option without a value this may be the first word of the text.
			[[ ! $value =~ ^[A-Z]+(,\.\.\.)?$|\| ]] || takes[$name]=$value
			[[ ! $text =~ these:\ ([a-z]+(,\ [a-z]+)*) ]] || values[$name]=${BASH_REMATCH[1]//,/}
		elif [[ $line =~ ^\ \ ([a-z0-9]+[:,])[A-Z] ]]; then
			ladders+=("${BASH_REMATCH[1]}")
		fi
	done < <("$program" "$command" --help 2>/dev/null)
}

# The value of an option.
_blkhist_value()
{
	case ${takes[$1]} in
	*'|'*) _blkhist_words "${takes[$1]//|/ }" ;;
	NAME,...) _blkhist_list "$(_blkhist_devices)" ;;
	*,...) _blkhist_list "${values[$1]-}" ;;
	LADDER)
		_blkhist_words "${ladders[*]}"
		compopt -o nospace 2>/dev/null
		;;
	DIR) _blkhist_files d ;;
	*) _blkhist_files f ;;
	esac
}

_blkhist_operand()
{
	local word traces=''
	for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
		[[ $word != --input && ! ( $word =~ ^-[a-zA-Z]*i && -n ${letters[-i]-} ) ]] || traces=yes
	done
	if [[ -n $traces || ( $operands == *NAME* && $cur == [./~]* ) ]]; then
		_blkhist_files f
	elif [[ $operands == *NAME* ]]; then
		_blkhist_words "$(_blkhist_devices)"
	elif [[ $operands == *DIR* ]]; then
		_blkhist_files d
	fi
}

_blkhist_commands()
{
	local line
	while IFS= read -r line; do
		[[ ! $line =~ ^\ \ ([a-z]+)\ +[A-Z] ]] || printf '%s ' "${BASH_REMATCH[1]}"
	done < <("$program" help 2>/dev/null)
}

_blkhist()
{
	local program=${1/#\~\//"$HOME"/} command=${COMP_WORDS[1]-}
	local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} operands=''
	local -A letters=() takes=() values=()
	local -a ladders=()

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_blkhist_words "$(_blkhist_commands) help --help --version"
		return
	elif [[ $command == help ]]; then
		((COMP_CWORD > 2)) || _blkhist_words "$(_blkhist_commands)"
		return
	fi
	# --option=value is three words.
	if [[ $cur == = ]]; then
		cur=''
	elif [[ $before == = ]]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	_blkhist_read_help
	if [[ $before =~ ^-[a-zA-Z]+$ ]]; then
		before=${letters[-${before: -1}]-}
	fi
	if [[ -n $before && -n ${takes[$before]-} ]]; then
		_blkhist_value "$before"
	elif [[ $cur == -* ]]; then
		_blkhist_words "${!takes[*]}"
	elif [[ $cur != : && $before != : ]]; then
		_blkhist_operand
	fi
}

complete -F _blkhist blkhist
