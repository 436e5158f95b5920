# SPDX-License-Identifier: MIT
# zsh -f tests/programs/candidates.zsh FOLDER FOUND LINE...: what zsh offers where each LINE ends, with FOLDER's
# completions: a line of FOUND for each LINE. Completion needs a line editor, and that a terminal: so a second zsh at a
# pseudo-terminal is asked. It gets no further key before it has answered: with keys waiting, zsh may not complete.
zmodload zsh/zpty
folder=$1 found=$2
shift 2
: >$found
zpty shell zsh -f -i
say() { zpty -w shell "$1" }
say "PROMPT= PS2= fpath=(${(q)folder} \$fpath); autoload -Uz compinit; compinit -u -D; unsetopt listbeep autolist automenu"
# All candidates go through compadd. With -O, -A or -D it adds none: it is asked which match.
say "compadd() { if [[ \" \${(j: :)@[1,(i)-]} \" == *\ -[OAD]\ * ]]; then builtin compadd \"\$@\"; return; fi; local -a hits; builtin compadd -A hits \"\$@\"; print -rn -- \"\$hits \" >>${(q)found}; builtin compadd \"\$@\" }"
say "answer() { zle complete-word; print >>${(q)found} }; zle -N answer; bindkey '^I' answer"
answered=0
for line; do
  zpty -w -n shell "$line"$'\t'
  (( answered++ ))
  until [[ $(wc -l <$found) -ge $answered ]]; do
    zpty -r -t shell echoed
    sleep 0.02
  done
  zpty -w -n shell $'\C-u'
done
zpty -d shell
