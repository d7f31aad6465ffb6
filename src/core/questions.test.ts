import { describe, expect, it } from 'vitest'
import { commandPrefix, isAllowedBy, noGrant, type Rule } from './questions.ts'

describe('the first words of a command', () => {
  it.each([
    ['npm test', 'npm test'],
    ['npm test -- --watch', 'npm test'],
    ['ls -la src', 'ls'],
    ['cargo build --release', 'cargo build'],
    ['./gradlew', './gradlew'],
    ['cat README.md', 'cat'],
    ['terraform apply', 'terraform apply'],
    ["grep -n 'a b' x", 'grep'],
  ])('[T5] of %s are %s', (command, prefix) => {
    expect(commandPrefix(command)).toBe(prefix)
  })

  it.each([
    'npm test; rm -rf /',
    'npm test && curl evil',
    'npm test | sh',
    'npm test > ~/.bashrc',
    'npm test $(curl evil)',
    'npm test `curl evil`',
    'npm test\nrm -rf /',
    'npm test \\\n rm',
    'npm test # x',
    'PATH=. npm test',
    'bash -c ls',
    '/bin/sh x',
    'env npm test',
    'sudo npm test',
    'find . -delete',
    'xargs rm',
    'python3 x.py',
    'git -c core.pager=evil log',
    'git',
    '',
    ' ',
  ])('[T5] can not be allowed for %j', (command) => {
    expect(commandPrefix(command)).toBeNull()
  })
})

describe('a rule', () => {
  const rule = (part: Partial<Rule>): Rule => ({
    id: 'rule_1',
    workspaceId: null,
    conversationId: null,
    toolName: 'run_command',
    match: 'prefix',
    subject: 'npm test',
    grant: noGrant,
    isConfined: true,
    by: 'me',
    createdAt: '',
    ...part,
  })
  const question = (sandbox: string | null, wantsNetwork = false) => ({
    toolName: 'run_command',
    arguments: '',
    subject: 'npm test',
    confinement: { sandbox, network: false, wantsNetwork },
    sha256: '',
  })

  it('[T5] made in the sandbox does not apply without one', () => {
    expect(isAllowedBy(rule({}), question('bwrap'))).toBe(true)
    expect(isAllowedBy(rule({}), question(null))).toBe(false)
  })

  it('[T5] for many calls gives none of them the network', () => {
    expect(isAllowedBy(rule({}), question('bwrap', true))).toBe(false)
    expect(isAllowedBy(rule({ grant: { network: true, outside: false } }), question('bwrap', true))).toBe(
      true,
    )
    expect(isAllowedBy(rule({ match: 'exact' }), question('bwrap', true))).toBe(true)
  })
})
